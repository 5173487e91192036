#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
# A made-up run of Megatron-LM: Llama 3 8B on two nodes.
TP=2
PP=2

MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --vocab-size 128256
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --position-embedding-type rope
)
TRAIN_ARGS=(
    --seq-length ${SEQ_LENGTH:-8192}
    --micro-batch-size 1
    --global-batch-size $((32 * TP))
    --hidden-dropout 0 --attention-dropout 0
    --bf16
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size $PP
    --sequence-paralel
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
)

srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 pretrain_gpt.py \
    ${MODEL_ARGS[@]} ${TRAIN_ARGS[@]} ${PARALLEL_ARGS[@]}
