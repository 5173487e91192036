#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
TP=2; PP=$((2 * 2))
ARGS=(--num-layers 32 --hidden-size 1024 --num-attention-heads 16 "--seq-length 2048")
ARGS+=(--micro-batch-size 1 --global-batch-size 1_024 --bf16 --swiglu)
if [[ "$TP" -gt 1 && $PP == 4 ]]; then ARGS+=(--sequence-parallel); else ARGS+=(--fp16); fi
case $PP in 4) X=1 ;; *) X=2 ;; esac
srun torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES pretrain_gpt.py "${ARGS[@]}" \
    --tensor-model-parallel-size ${TP:-1} --pipeline-model-parallel-size $PP --num-experts 8 \
    --moe-layer-freq "([0]*2+[1]*30)" --expert-model-parallel-size 2 --context_parallel_size $(nproc) | tee log
