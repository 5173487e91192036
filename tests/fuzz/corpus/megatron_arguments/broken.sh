A=$A$A
A="$A$A"
B=${C:=${D:=${E:=${F:-"$(x'${}"}}}}
for i in $A; do if [ x; then case in esac