"""One of two processes that shard a planned model between them: runs every check and writes what it finds."""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from deeplimits.transfer.plan import Plan
from tests.transfer.sharded import checks


def main(folder: Path, rank: int, world: int) -> None:
    torch.set_num_threads(1)
    place = f"file://{folder / 'rendezvous'}"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=world, timeout=timedelta(seconds=100))
    plans = {path.stem: Plan.load(path) for path in folder.glob("*.json")}
    found = {}
    for name in checks.__all__:
        torch.manual_seed(0)
        try:
            getattr(checks, name)(plans, folder)
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
        failed = [None] * world
        dist.all_gather_object(failed, found[name])
        if rank == 0:
            found[name] = "\n".join(filter(None, failed))
            (folder / "found.txt").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
