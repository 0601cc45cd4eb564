# ruff: noqa: E501
"""Shapes of public training scripts for Slurm, in our own words, with programs that only say that they were reached.

Each has two nodes, whatever it asks for beside them. ``REACHED`` is how many processes are to reach the training
command; all of them must meet at the same address.
"""

from __future__ import annotations

import sys
from pathlib import Path

# What stands for torchrun, python and the others: it says where it would meet.
STUB = """#!/bin/bash
if [ "$1" = -c ]; then exec PYTHON "$@"; fi
at=$MASTER_ADDR
while [ $# -gt 0 ]; do
  case "$1" in
    --rdzv[-_]endpoint=*|--master[-_]addr=*|--main_process_ip=*|--coordinator=*|--address=*|--init-method=*) at=${1#*=} ;;
    --rdzv[-_]endpoint|--master[-_]addr|--main_process_ip|--coordinator|--address|--init-method) at=$2; shift ;;
  esac
  shift
done
at=${at#tcp://}
echo "reached ${at%%:*} by $(basename "$0") as ${SLURM_PROCID:-none} of ${SLURM_NTASKS:-none}"
"""
PROGRAMS = (
    "torchrun",
    "python",
    "python3",
    "accelerate",
    "deepspeed",
    "composer",
    "ray",
    "jaxrun",
    "train",
    "horovodrun",
)


def make_programs(folder: Path) -> str:
    """Write the programs; answers their folder."""
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).write_text(STUB.replace("PYTHON", sys.executable))
        (folder / name).chmod(0o755)
    return str(folder)


_TWO = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --exclusive\n"

SCRIPTS: dict[str, tuple[int, str]] = {
    # torchrun, one launcher on each node
    "torchrun-hostname": (2, "srun torchrun --nnodes=$SLURM_JOB_NUM_NODES --rdzv_endpoint=$(hostname) train.py"),
    "torchrun-hostname-array": (
        2,
        "ARGS=(--nproc_per_node=8 --nnodes=$SLURM_JOB_NUM_NODES --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d\n"
        '  --rdzv_endpoint=$(hostname))\nsrun -l torchrun "${ARGS[@]}" train.py --epochs 3',
    ),
    "torchrun-hostname-port": (2, 'srun torchrun --rdzv-endpoint "$(hostname):$((20000 + SLURM_JOB_ID % 1000))" t.py'),
    "torchrun-ip": (
        2,
        "nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\nhead=${nodes[0]}\n"
        'ip=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address)\n'
        "srun torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint $ip:29500 train.py",
    ),
    "torchrun-ip-first-word": (
        2,
        "ip=$(srun -N1 -n1 hostname -I | awk '{print $1}')\nsrun torchrun --rdzv_endpoint=$ip:29400 train.py",
    ),
    "torchrun-scontrol": (
        2,
        'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        "export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOB_ID | tail -c 4))\n"
        "srun torchrun --master_addr $MASTER_ADDR --node_rank $SLURM_NODEID train.py",
    ),
    "torchrun-node-rank-in-task": (
        2,
        "export MASTER_ADDR=$(scontrol show hostname ${SLURM_NODELIST} | head -n 1)\n"
        "srun bash -c 'torchrun --node_rank=$SLURM_NODEID --master_addr=$MASTER_ADDR train.py'",
    ),
    "torchrun-xtrace-and-errors": (
        2,
        "set -exo pipefail\nexport A=${A:-1}\nsrun -l torchrun --rdzv_endpoint=$(hostname) t.py",
    ),
    "torchrun-module": (2, "srun python -m torch.distributed.run --rdzv_endpoint=$(hostname):29500 train.py"),
    "torchrun-function": (
        2,
        'run() { srun --kill-on-bad-exit=1 torchrun --rdzv_endpoint=$(hostname) "$@"; }\nrun train.py --lr 1',
    ),
    "torchrun-auto-resume": (
        2,
        'AUTO_RESUME=""\nif [ -d /nowhere ]; then AUTO_RESUME="--auto-resume=1"; fi\n'
        "srun ${AUTO_RESUME} -l torchrun --rdzv_endpoint=$(hostname) train.py",
    ),
    "torchrun-auto-resume-given": (2, "srun --auto-resume=1 -l torchrun --rdzv_endpoint=$(hostname) train.py"),
    "torchrun-in-the-background": (
        2,
        "head=$(hostname)\nfor node in $(scontrol show hostnames); do\n"
        "  srun -N1 -n1 -w $node torchrun --rdzv_endpoint=$head train.py &\ndone\nwait",
    ),
    "torchrun-ssh": (
        2,
        "head=$(hostname)\nfor node in $(scontrol show hostnames); do\n"
        '  ssh -o StrictHostKeyChecking=no $node "torchrun --rdzv_endpoint=$head train.py" &\ndone\nwait',
    ),
    "torchrun-profiled": (
        2,
        "cat > wrap.sh <<'END'\n#!/bin/bash\nexec \"$@\"\nEND\nchmod +x wrap.sh\n"
        "srun -l ./wrap.sh torchrun --rdzv_endpoint=$(hostname) train.py",
    ),
    "torchrun-virtual-environment": (
        2,
        "mkdir -p env/bin; echo 'export VIRTUAL_ENV=$PWD/env PATH=$PWD/env/bin:$PATH' > env/bin/activate\n"
        "source env/bin/activate\nsrun torchrun --rdzv_endpoint=$(hostname) train.py",
    ),
    "torchrun-here-document": (
        2,
        "head=$(hostname)\nsrun bash <<END\ntorchrun --rdzv_endpoint=$head train.py\nEND",
    ),
    "torchrun-resume-loop": (
        2,
        "n=0\nuntil srun torchrun --rdzv_endpoint=$(hostname) train.py; do\n"
        "  n=$((n + 1)); [ $n -lt 3 ] || exit 1\ndone",
    ),
    "torchrun-logs": (
        2,
        "mkdir -p logs\nsrun -o logs/%x-%j-%t.out -e logs/%x-%j-%t.err torchrun --rdzv_endpoint=$(hostname) t.py\n"
        "cat logs/*.out",
    ),
    "torchrun-tee": (2, "srun torchrun --rdzv_endpoint=$(hostname) train.py 2>&1 | tee train.log"),
    # a task for each card
    "python-env-of-slurm": (
        4,
        "#SBATCH --ntasks-per-node=2\nexport MASTER_ADDR=$(scontrol show hostnames | head -n 1) MASTER_PORT=29500\n"
        "export WORLD_SIZE=$SLURM_NTASKS\nsrun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID python train.py'",
    ),
    "python-world-size-product": (
        4,
        "#SBATCH --ntasks-per-node=2\nexport WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))\n"
        "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        "[ $WORLD_SIZE = 4 ] && srun python train.py",
    ),
    "lightning": (
        4,
        "#SBATCH --ntasks-per-node=2 --gres=gpu:2 --signal=SIGUSR1@90 --time=0-02:00:00\n"
        "export NCCL_DEBUG=INFO PYTHONFAULTHANDLER=1\nsrun python train.py --devices 2 --num_nodes $SLURM_JOB_NUM_NODES",
    ),
    "lightning-unbuffered": (4, "#SBATCH --ntasks-per-node=2 --mem=0\nsrun -u --cpu-bind=none python -u train.py"),
    "step-address": (
        4,
        "#SBATCH --ntasks-per-node=2\n"
        "srun bash -c 'train --address ${SLURM_STEP_NODELIST%%,*} --rank $SLURM_PROCID --local $SLURM_LOCALID'",
    ),
    "launch-node-address": (2, "srun bash -c 'python train.py --init-method tcp://$SLURM_LAUNCH_NODE_IPADDR:2345'"),
    "nemo": (
        4,
        "#SBATCH --ntasks-per-node=2 --gpus-per-node=2 --overcommit\n"
        "read -r -d '' cmd <<END || true\ncd . && export HYDRA_FULL_ERROR=1 && python train.py trainer.num_nodes=2\nEND\n"
        'srun --container-image=nvcr.io/nvidia/nemo:24.07 --container-mounts="/data:/data,/tmp:/out" bash -c "${cmd}"',
    ),
    "megatron": (
        4,
        '#SBATCH --ntasks-per-node=2 --ntasks-per-core=1 --wait-all-nodes=1\n: "${TP:=1}"\n: "${IMAGE:=$(pwd)/x.sqsh}"\n'
        "declare -a ARGS=(--container-image $IMAGE --container-mounts /tmp:/tmp)\n"
        'srun -l "${ARGS[@]}" python pretrain_gpt.py --tensor-model-parallel-size $TP',
    ),
    "megatron-torchrun": (
        2,
        "declare -a ARGS=(--container-image ./megatron.sqsh --container-mount-home)\ndeclare -a DIST=(--nnodes=2\n"
        "  --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=$(hostname))\n"
        'srun -l "${ARGS[@]}" python -m torch.distributed.run "${DIST[@]}" pretrain_gpt.py',
    ),
    # launchers of frameworks
    "accelerate": (
        2,
        "head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        'LAUNCH="accelerate launch --num_machines $SLURM_NNODES --main_process_ip=$head --rdzv_backend c10d"\n'
        'srun bash -c "$LAUNCH --machine_rank \\$SLURM_PROCID train.py"',
    ),
    "accelerate-config": (
        2,
        "export head_node_ip=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        "srun accelerate launch --main_process_ip $head_node_ip --main_process_port 29500 train.py",
    ),
    "deepspeed-hostfile": (
        2,
        "scontrol show hostnames > hosts\nsed -i 's/$/ slots=8/' hosts\nhead=$(head -n 1 hosts | cut -d' ' -f1)\n"
        "for node in $(cut -d' ' -f1 hosts); do\n  ssh $node deepspeed --master_addr=$head train.py &\ndone\nwait",
    ),
    "deepspeed-srun": (
        2,
        "export MASTER_ADDR=$(scontrol show hostnames | head -1)\nsrun --jobid $SLURM_JOBID bash -c \\\n"
        "  'deepspeed --master_addr $MASTER_ADDR --node_rank $SLURM_NODEID train.py'",
    ),
    "bloom-jobid": (
        2,
        "GPUS_PER_NODE=8\nMASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        'export LAUNCHER="python -u -m torch.distributed.run --nnodes 2 --rdzv_endpoint $MASTER_ADDR:6000"\n'
        'export CMD="train.py --tp 1"\nclear 2> /dev/null || true\n'
        'srun --wait=60 --kill-on-bad-exit=1 --jobid $SLURM_JOBID bash -c "$LAUNCHER --node_rank \\$SLURM_PROCID $CMD"',
    ),
    "composer-by-node": (
        2,
        "NODES=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\nrank=0\nfor NODE in ${NODES[@]}; do\n"
        "  srun --nodelist=${NODE} --ntasks=1 -l composer --master_addr=${NODES[0]} --node_rank=$rank train.py &\n"
        "  rank=$((rank + 1))\ndone\nwait",
    ),
    "jax": (
        4,
        "#SBATCH -n 4\nsrun --container-image ./jax.sqsh -n 4 -N ${SLURM_JOB_NUM_NODES} bash -c \\\n"
        "  'jaxrun --coordinator=${SLURM_JOB_NODELIST%%,*}:12345 --process_id=$SLURM_PROCID'",
    ),
    "jax-job-id": (2, "export PORT=$((SLURM_JOB_ID % 4096 + 61440))\nsrun jaxrun --coordinator $(hostname):$PORT"),
    "tensorflow-nodelist": (
        2,
        "workers=$(scontrol show hostnames $SLURM_NODELIST | paste -sd, -)\n"
        'srun bash -c "train --address=${workers%%,*} --index \\$SLURM_PROCID"',
    ),
    "ray-symmetric": (
        2,
        'nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))\nhead=${nodes[0]}\n'
        "ip=$(srun --nodes=1 --ntasks=1 -w $head hostname --ip-address)\n"
        "srun --nodes=1 --ntasks=1 -w $head ray start --head --address=$ip:6379 --block &\n"
        "for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do\n"
        "  srun --nodes=1 --ntasks=1 -w ${nodes[$i]} ray start --address $ip:6379 --block &\ndone\nwait",
    ),
    "ray-overlap": (
        3,
        "head=$(hostname -i)\nsrun --overlap -N1 -n1 ray start --address=$head &\n"
        "srun --overlap -N1 -n1 --relative=1 ray start --address=$head &\nwait\npython train.py --address=$head",
    ),
    # containers
    "pyxis-array": (
        2,
        "declare -a ARGS=(\n  --container-image $PWD/train.sqsh\n  --container-mounts $PWD:$PWD\n"
        "  --container-workdir $PWD\n  --no-container-remap-root\n)\n"
        'srun -l "${ARGS[@]}" --mpi=pmix --cpu-bind=none torchrun --rdzv_endpoint=$(hostname) train.py',
    ),
    "apptainer": (
        2,
        "export MASTER_ADDR=$(hostname)\nsrun apptainer exec --nv --bind /data:/data image.sif python train.py",
    ),
    "singularity-in-shell": (
        2,
        'head=$(hostname)\nsrun bash -c "singularity exec --nv -B /tmp,/data image.sif torchrun --rdzv_endpoint=$head t.py"',
    ),
    # several parts
    "parts-actor-and-critic": (
        4,
        "#SBATCH --ntasks-per-node=1\n#SBATCH hetjob\n#SBATCH -N 1 --ntasks-per-node 2 --exclusive\n"
        'read -r -d "" serve <<EOF\ntrain --address $(hostname)\nEOF\n'
        'srun --het-group=0 -o critic_%j_%t.log bash -c "$serve" &\n'
        'critic="$(scontrol show hostnames=$SLURM_JOB_NODELIST_HET_GROUP_0 | head -n1)"\n'
        'srun --het-group=1 -o actor_%j_%t.log bash -c "python train.py --address $critic" &\n'
        "wait\ncat critic_*.log actor_*.log",
    ),
    "parts-in-one-step": (
        3,
        "#SBATCH --ntasks-per-node=1\n#SBATCH packjob\n#SBATCH --partition=gpu --nodes=1 --ntasks=1 --gres=gpu:1\n"
        "srun --mpi=pmix --het-group=0 train : --het-group=1 -n 1 train",
    ),
    "parts-served-until-ready": (
        1,
        "#SBATCH -c 1\n#SBATCH hetjob\n#SBATCH -N 1 -n 1\n"
        "srun --het-group=0 -N 1 -n 1 bash -c 'echo $(hostname) > endpoint; sleep 20' &\n"
        "until [ -s endpoint ]; do sleep 0.1; done\n"
        'srun --label --het-group=1 --ntasks=1 train --address "$(< endpoint)"\nkill %1; wait || true',
    ),
    # where scripts look for themselves and for others
    "command-of-the-job": (
        2,
        "set -euo pipefail\n"
        'own="$(scontrol show job "$SLURM_JOB_ID" | grep \'^[[:space:]]*Command=\' | head -n 1 | cut -d = -f 2-)"\n'
        '[ -n "$(dirname "$own")" ]\nMASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"\n'
        "export MASTER_ADDR MASTER_PORT=54123\n"
        'srun --cpu-bind=none --ntasks-per-node=1 bash -c \'torchrun --nnodes="$SLURM_NNODES" '
        '--rdzv_conf=is_host=$((SLURM_NODEID == 0 ? 1 : 0)) --rdzv_endpoint="$MASTER_ADDR":"$MASTER_PORT" "$1"\' bash t.py',
    ),
    "launcher-on-each-host-in-a-loop": (
        2,
        'HOSTS=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))\nexport HEAD=${HOSTS[0]} COUNT=$SLURM_NTASKS\n'
        'for i in "${!HOSTS[@]}"; do\n  srun --export=ALL -N1 -n1 -w ${HOSTS[$i]} --output="out/sub_$i.txt" '
        "jaxrun --coordinator $HEAD:10001 $i &\ndone\nwait\ncat out/sub_*.txt",
    ),
    "eight-steps-that-take-turns": (
        8,
        "mkdir steps && cd steps\nfor i in $(seq 1 8); do\n  srun --exclusive -N1 -n1 --cpus-per-task=1 "
        'train --address=$MASTER_ADDR --part $i > "$i.log" 2> "$i.err" &\ndone\nwait\ncat *.log',
    ),
    "hosts-of-horovod-by-sed": (
        1,
        "LIST=$(scontrol show hostname $SLURM_JOB_NODELIST | sed -z 's/\\n/\\:1,/g')\nLIST=${LIST%?}\n"
        "horovodrun --address ${LIST%%:*} -np 2 --hosts $LIST python train.py",
    ),
    "ports-that-are-reserved": (
        4,
        "#SBATCH --ntasks-per-node=2 -c 1\nWORKERS=$((SLURM_NTASKS - 1))\n"
        "srun -n $SLURM_NTASKS -c $SLURM_CPUS_PER_TASK --resv-ports=$SLURM_NTASKS_PER_NODE -l "
        "python train.py -ps 1 -workers $WORKERS",
    ),
    "ray-in-containers-and-a-job": (
        3,
        "nodes=($(scontrol show hostnames))\nip=$(getent hosts ${nodes[0]} | cut -d' ' -f1)\nLOG=$(realpath .)/job.log\n"
        'srun --nodes=1 --ntasks=1 -w "${nodes[0]}" --container-image=nvcr.io/nvidia/pytorch:25.02-py3 '
        '--container-mounts="$PWD:/app,$HOME:/root" bash -c "ray start --head --address=$ip --block" &>> $LOG &\n'
        'srun --nodes=1 --ntasks=1 -w "${nodes[1]}" --container-image=nvcr.io/nvidia/pytorch:25.02-py3 bash -c '
        '"ray start --address $ip:6379 --block" &>> $LOG &\nwait\n'
        'srun --overlap --nodes=1 --ntasks=1 -w "${nodes[0]}" bash -c "ray job submit --address=$ip:8265 -- python x" '
        "&>> $LOG\ngrep reached $LOG",
    ),
    "account-in-strict-bash": (
        2,
        'set -euo pipefail\necho "by $SLURM_JOB_ACCOUNT on $SLURM_JOB_PARTITION"\n'
        "srun torchrun --rdzv_endpoint=$(hostname) train.py",
    ),
    "task-environment-by-a-wrapper": (
        4,
        "#SBATCH --ntasks-per-node=2 --hint=nomultithread --cpus-per-task=1\n"
        "cat > select.sh <<'END'\n#!/bin/bash\nexport ROCR_VISIBLE_DEVICES=$SLURM_LOCALID RANK=$SLURM_PROCID\nexec \"$@\"\n"
        "END\nchmod +x ./select.sh\nexport MASTER_ADDR=$(hostname)\n"
        'srun --cpu-bind=mask_cpu:0x1,0x2 ./select.sh bash -c "python -u train.py"',
    ),
    "preprocess-and-train": (
        3,
        "export PRIMARY=$(hostname)\nsrun -N1 -n1 python prepare.py --address $PRIMARY\n"
        'srun accelerate launch --main_process_ip "$PRIMARY" --machine_rank $SLURM_NODEID train.py',
    ),
    "background-watch-of-devices": (
        4,
        "#SBATCH --ntasks-per-node=2\n(while sleep 0.1; do date; done) > watch.log &\nBG=$!\n"
        "srun --overlap -n $SLURM_NTASKS python train.py\nkill $BG",
    ),
    "signal-to-the-shell-and-a-status-file": (
        2,
        "#SBATCH --signal=B:TERM@30 --time=5 --comment=nightly\n"
        "trap 'touch stopped; scontrol requeue ${SLURM_JOB_ID}' TERM\n"
        "srun --kill-on-bad-exit=1 --wait=60 -u torchrun --rdzv-endpoint=$(hostname):29500 train.py & wait $!\n"
        "[ ! -e stopped ]",
    ),
    # sizes
    "nodes-in-a-range": (2, "#SBATCH --nodes=2-4\nsrun torchrun --rdzv_endpoint=$(hostname) train.py"),
    "uneven-tasks": (3, "#SBATCH --ntasks=3\nexport MASTER_ADDR=$(hostname)\nsrun python train.py"),
    "a-comment-behind-options": (
        4,
        "#SBATCH --ntasks-per-node=2      # one for each card\n#SBATCH --gpus-per-task=1 # H100\n"
        "export MASTER_ADDR=$(hostname)\nsrun --gpus-per-task=1 python train.py",
    ),
    "files-of-output": (
        2,
        "#SBATCH --job-name=my_model --output=logs/%x_%j.out --error=logs/%x_%j.err --open-mode=append\n"
        "srun torchrun --rdzv_endpoint=$(hostname) train.py",
    ),
    "checkpoint-on-signal": (
        2,
        "#SBATCH --signal=B:USR1@60 --requeue --time=1:00:00\ntrap 'scontrol requeue $SLURM_JOB_ID' USR1\n"
        "srun torchrun --rdzv_endpoint=$(hostname) train.py &\nwait",
    ),
}


def script_of(name: str) -> str:
    """Text of a script."""
    return f"{_TWO}{SCRIPTS[name][1]}\n"
