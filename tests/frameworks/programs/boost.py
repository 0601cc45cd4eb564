"""Trains gradient-boosted trees with XGBoost's own collective: the master runs the tracker, all ranks train."""

from __future__ import annotations

import os
import time

import numpy as np
import xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HOST, PORT = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])

tracker = None
if RANK == 0:
    # The address of the pod, which others know by the master's name.
    import socket

    tracker = RabitTracker(n_workers=SIZE, host_ip=socket.gethostbyname(HOST), port=PORT)
    tracker.start()
arguments = {"dmlc_tracker_uri": HOST, "dmlc_tracker_port": PORT, "dmlc_task_id": str(RANK), "dmlc_retry": 60}
for attempt in range(60):
    try:
        collective.init(**arguments)
        break
    except xgboost.core.XGBoostError:
        if attempt == 59:
            raise
        time.sleep(0.5)

random = np.random.default_rng(RANK)
values = random.normal(size=(400, 4))
labels = (values @ np.array([1.0, -2.0, 0.5, 0.0]) > 0).astype(float)
data = xgboost.DMatrix(values, labels)
result: dict[str, dict[str, list[float]]] = {}
model = xgboost.train(
    {"objective": "binary:logistic", "tree_method": "hist", "max_depth": 3, "eval_metric": "error", "nthread": 1},
    data,
    num_boost_round=20,
    evals=[(data, "train")],
    evals_result=result,
    verbose_eval=False,
)
total = collective.allreduce(np.array([RANK + 1]), collective.Op.SUM)
print(
    f"rank {collective.get_rank()} of {collective.get_world_size()}: sum {int(total[0])}, "
    f"error {result['train']['error'][-1]:.4f}",
    flush=True,
)
collective.finalize()
if tracker is not None:
    tracker.wait_for()
