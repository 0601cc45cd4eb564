"""Training scripts in the shapes that are public: on the same nodes, each reaches its command in all its ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.slurm_pods import batch_text, may_mount, run_batch
from support.slurm_scripts import make_programs
from unisono.cli.slurm.script import BadScript

# Where all ranks of a step, or one launcher on each node, must be reached.
TASKS, NODES = ["0", "1", "2", "3"], ["0", "1"]

# Bodies of scripts on two nodes of two tasks and two cards.
SCRIPTS: dict[str, tuple[list[str], str]] = {
    "modules, an environment and strict bash": (
        NODES,
        "set -euo pipefail\nmodule purge\nmodule load cuda/12.1 nccl\nml python\nmodule is-loaded gcc || true\n"
        "echo 'export CONDA_PREFIX=/nowhere' > activate\nPATH=$PWD:$PATH\nsource activate training\n"
        'ip=$(srun --nodes=1 --ntasks=1 -w "$(hostname)" hostname --ip-address)\n'
        "srun -N 2 -n 2 torchrun --nnodes=2 --rdzv_endpoint=$ip:29500 train.py",
    ),
    "the address of who launched": (
        NODES,
        'srun --ntasks-per-node=1 bash -c "torchrun --node_rank \\$SLURM_NODEID '
        '--master_addr $SLURM_LAUNCH_NODE_IPADDR train.py"',
    ),
    "a list that Python reads": (
        TASKS,
        "export MASTER_ADDR=$(python -c \"import os, re; text = os.environ['SLURM_NODELIST']; "
        "head = re.match(r'([^,\\[]+)(?:\\[(\\d+))?', text); print(head[1] + (head[2] or ''))\")\nsrun python train.py",
    ),
    "a port of the job's number": (
        TASKS,
        "export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))\n"
        "[ $MASTER_PORT -ge 10000 ] && srun python train.py --port $MASTER_PORT",
    ),
    "variables by --export": (
        TASKS,
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)\n'
        "srun --export=ALL,MASTER_ADDR=$head,NCCL_DEBUG=INFO bash -c '[ $NCCL_DEBUG = INFO ] && python train.py'",
    ),
    "variables of the task and the script": (
        TASKS,
        "export HEAD=$(hostname)\nsrun bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID "
        'MASTER_ADDR=$HEAD; [ "$RANK" = "$SLURM_PROCID" ] && python train.py\'',
    ),
    "a script that the script writes": (
        TASKS,
        "head=$(scontrol show hostnames | head -n 1)\ncat > run.sh <<EOF\n#!/bin/bash\n"
        "export MASTER_ADDR=$head RANK=\\$SLURM_PROCID\n[ \\$RANK -lt \\$SLURM_NTASKS ] && python train.py\nEOF\n"
        "chmod +x run.sh\nsrun ./run.sh",
    ),
    "accelerate with the number of the node": (
        NODES,
        "head=$(hostname -i)\nsrun --ntasks=$SLURM_NNODES --ntasks-per-node=1 bash -c "
        '"accelerate launch --num_machines $SLURM_NNODES --machine_rank \\$SLURM_NODEID --main_process_ip $head t.py"',
    ),
    "deepspeed with a file of hosts": (
        ["none"],
        "srun --ntasks-per-node=1 hostname | sort -u | sed 's/$/ slots=2/' > hostfile\n[ $(wc -l < hostfile) = 2 ]\n"
        "env -u SLURM_PROCID deepspeed --hostfile hostfile --master_addr $(head -n1 hostfile | cut -d' ' -f1) train.py",
    ),
    "older names of options": (
        TASKS,
        "srun --cpu_bind none --mem_bind=local --tasks-per-node=2 --unbuff python train.py",
    ),
    "cards by their kind": (
        TASKS,
        "srun --gres gpu:a100:2 --gpus-per-task=a100 --gpu-bind=none --mem-per-gpu=4G --cpus-per-gpu=1 python train.py",
    ),
    "sizes of the world from cards": (
        NODES,
        "set -u\nexport WORLD_SIZE=$((SLURM_NNODES * SLURM_GPUS_ON_NODE))\n[ $WORLD_SIZE = 4 ] || exit 1\n"
        "srun -n $SLURM_NNODES torchrun --nproc_per_node=$SLURM_GPUS_PER_NODE --master-addr=$(hostname) train.py",
    ),
    "the host of the batch by scontrol": (
        TASKS,
        "export MASTER_ADDR=$(scontrol show job $SLURM_JOB_ID | grep BatchHost | cut -d= -f2)\n"
        "one=$(scontrol -o show job $SLURM_JOB_ID | tr ' ' '\\n' | awk -F= '/^BatchHost/ {print $2}')\n"
        "[ $one = $MASTER_ADDR ] && srun python train.py",
    ),
    "the address of a node by scontrol": (
        TASKS,
        "export MASTER_ADDR=$(scontrol show node $(hostname) | awk -F'[ =]+' '/NodeAddr/ {print $3}')\n"
        "srun python train.py",
    ),
    "nodes read into an array": (
        NODES,
        "mapfile -t nodes < <(scontrol show hostnames)\nfor ((i = 0; i < ${#nodes[@]}; i++)); do\n"
        '  srun -N1 -n1 -w "${nodes[i]}" bash -c "SLURM_PROCID=$i torchrun --master_addr=${nodes[0]} t.py" & p+=($!)\n'
        'done\nfor each in "${p[@]}"; do wait $each; done',
    ),
    "a name that is looked up": (
        TASKS,
        "export MASTER_ADDR=$(getent hosts $(scontrol show hostnames | head -1) | awk '{print $1; exit}')\n"
        "srun -l python train.py",
    ),
    "traps and a step that is waited for": (
        TASKS,
        "trap 'echo again; scontrol requeue $SLURM_JOB_ID' USR1\ntrap 'rm -rf scratch' EXIT\nmkdir scratch\n"
        "srun python train.py &\nchild=$!\nwait $child",
    ),
    "a container of pyxis": (
        TASKS,
        'OPTIONS="--container-image=nvcr.io#nvidia/pytorch:24.01-py3 --container-mounts=/data:/data:ro,$PWD:/work '
        '--container-name=pt --no-container-mount-home --container-writable"\nsrun $OPTIONS --mpi=pmix python train.py',
    ),
    "a container of Shifter": (
        TASKS,
        "export MASTER_ADDR=$(hostname)\nsrun -l shifter --env A=$PWD/env --module=gpu,nccl python train.py",
    ),
    "code at another path": (
        TASKS,
        "mkdir -p run/code\necho ok > run/code/config\nexport MASTER_ADDR=$(hostname)\n"
        "srun --container-image ./train.sqsh --container-mounts $PWD/run:/mounted_run "
        "--container-workdir /mounted_run/code "
        "bash -c '[ $(cat config) = ok ] && [ $PWD = /mounted_run/code ] && python train.py'",
    ),
    "a launch script at another path": (
        NODES,
        "mkdir recipe\nprintf '#!/bin/bash\\ntorchrun --master_addr=$MASTER_ADDR t.py\\n' > recipe/launch.sh\n"
        "chmod +x recipe/launch.sh\nexport MASTER_ADDR=$(scontrol show hostnames | head -n 1)\n"
        'srun --ntasks-per-node=1 --container-mounts="./recipe:/mounted_recipe:mkdir,$PWD:/opt/artifacts" '
        "--container-writable bash -c 'ls /opt/artifacts > /dev/null && /mounted_recipe/launch.sh'",
    ),
    "a command in variables": (
        NODES,
        'LAUNCHER="torchrun --nnodes $SLURM_NNODES --rdzv_backend c10d --rdzv_endpoint $(hostname):29400"\n'
        'CMD="srun --nodes=$SLURM_NNODES --ntasks=$SLURM_NNODES $LAUNCHER train.py --name \\"a b\\""\neval $CMD',
    ),
    "functions that are exported": (
        TASKS,
        'train() { python train.py "$@"; }\nexport -f train\nsrun bash -c "train --lr 1"',
    ),
    "the folder it was submitted from": (
        TASKS,
        'cd "$SLURM_SUBMIT_DIR"\nsrun --chdir="$SLURM_SUBMIT_DIR" --wait=60 -K1 python train.py 2>&1 | tee -a log.txt',
    ),
}

if not may_mount():
    SCRIPTS = {name: given for name, given in SCRIPTS.items() if "another path" not in name}

HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --tasks-per-node=2 --gres=gpu:a100:2 --time=1:00:00 --signal=B:USR1@60\n"


@pytest.mark.processes
def test_training_begins_in_all_ranks_at_one_address(tmp_path: Path) -> None:
    """One batch runs all of them: starting pods takes longer than what they do."""
    programs = make_programs(tmp_path / "bin")
    body = HEAD
    for number, (_, text) in enumerate(SCRIPTS.values()):
        (tmp_path / f"{number}.sh").write_text(text)
        body += f"mkdir d{number}; (cd d{number}; bash ../{number}.sh > ../{number}.out 2> ../{number}.err)\n"
        body += f"echo rc $? >> {number}.out\n"
    done = run_batch(body, tmp_path, path=programs)
    assert done.codes == [0, 0], done.told
    failed = {}
    for number, (name, (ranks, _)) in enumerate(SCRIPTS.items()):
        said = (tmp_path / f"{number}.out").read_text()
        reached = re.findall(r"reached (\S+) by \S+ as (\S+) of", said)
        addresses = {address for address, _ in reached}
        met = len(addresses) == 1 and addresses.pop().endswith(".1")
        if not met or sorted(rank for _, rank in reached) != ranks or not said.endswith("rc 0\n"):
            failed[name] = (said, (tmp_path / f"{number}.err").read_text())
    assert failed == {}


# Lines of options in the spelling of public scripts, and what they are here.
LINES: dict[str, dict[str, object]] = {
    "--nodes=4 --tasks-per-node=8 --gres=gpu:a100:8": {"nodes": 4, "tasks": 32, "gpus": 8},
    "--ntasks=8 --ntasks-per-node=4 --gpus-per-task=1 --cpus-per-task=12": {"nodes": 2, "gpus": 4, "cpus": 12},
    "--gpus-per-task=1 --ntasks=4 --gres=none": {"gpus": 0, "gpus_per_task": 0},
    "--array=0-9%2 --output=%A_%a.out": {"array": tuple(range(10)), "at_once": 2},
    "--depend=afterok:prepare,afterany:other": {"after": (("afterok", "prepare"), ("afterany", "other"))},
    "--dependency=singleton --part=gpu --job=big": {"after": (("singleton", ""),), "queue": "gpu"},
    "--signal=B:USR1@60 --time 0-12": {"signal": (10, 60, True), "seconds": 12 * 3600},
    "--container-image=docker://nvcr.io#nvidia/pytorch:24.01 --container-mounts=/a:/b:ro,/c": {
        "image": "nvcr.io/nvidia/pytorch:24.01",
        "mounts": (("/a", "/b", True), ("/c", "/c", False)),
    },
    "--array=[2-3]%1 --time=UNLIMITED": {"array": (2, 3), "at_once": 1, "seconds": None},
    "--time=0": {"seconds": None},
    "--gres=scratch:200": {"gpus": 0, "notes": ("of --gres only cards are counted, and scratch:200 is left out",)},
    "--gres=gpu:h100:2,tmpfs:10G --nodes=2": {"gpus": 2, "nodes": 2},
    "--gres=gpu:h100": {"gpus": 1},
    "--gres=gres/gpu:2(S:0-1)": {"gpus": 2},
    "-N2 --ntasks-per-node=4 --tres-per-task=cpu=6,mem=4G,gres/gpu:a100=1": {
        **{"nodes": 2, "cpus": 6, "gpus": 4, "gpus_per_task": 1, "memory_mib": 16384}
    },
    "--ntasks=2 --tres-per-task=cpu:3,gres/gpu:2,license/x:1": {
        "cpus": 3,
        "gpus_per_task": 2,
        "notes": ("of --tres-per-task only cpu, mem and gres/gpu are counted, and license/x:1 is left out",),
    },
    "--tres-per-task=cpu=6 --cpus-per-task=2": {"cpus": 2},
    "--image=docker:centre/pytorch:24.06": {"image": "centre/pytorch:24.06"},
    "--environment=fit.toml": {
        "notes": ("--environment is not supported: the images of that centre are not here: use --image",)
    },
    "--export=none": {"exported": ()},
    "--workdir=/home/me/train --share": {"folder": "/home/me/train"},
}


def test_a_signal_comes_no_earlier_than_slurm_allows() -> None:
    assert batch_text("#!/bin/bash\n#SBATCH --signal=USR1@65535\n").signal == (10, 65535, False)
    with pytest.raises(BadScript, match=r"--signal=USR1@65536: 65536 seconds are too many, 65535 at most"):
        batch_text("#!/bin/bash\n#SBATCH --signal=USR1@65536\n")


@pytest.mark.parametrize("line", LINES)
def test_options_in_the_spelling_of_public_scripts(line: str) -> None:
    batch = batch_text(f"#!/bin/bash\n#SBATCH {line}\n")
    assert {name: getattr(batch, name) for name in LINES[line]} == LINES[line]
