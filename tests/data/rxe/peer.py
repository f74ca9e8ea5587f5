"""The kernel's side of a connection: verbs on Soft-RoCE, driven by the commands that `wireyard host` takes.

Runs in a guest of ../shared/rxe-vm. Command N is the file /host/cmd.N, one JSON object; its answer is /host/ans.N.
"""
import ipaddress
import json
import os
import time

from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.libibverbs_enums import *
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

ACCESS = (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
          | IBV_ACCESS_REMOTE_ATOMIC)
STATUS = {IBV_WC_SUCCESS: "success", IBV_WC_RETRY_EXC_ERR: "retry_exceeded",
          IBV_WC_REM_ACCESS_ERR: "remote_access", IBV_WC_WR_FLUSH_ERR: "flushed",
          IBV_WC_RNR_RETRY_EXC_ERR: "rnr_retry_exceeded"}
OPCODES = {"send": IBV_WR_SEND, "write": IBV_WR_RDMA_WRITE, "read": IBV_WR_RDMA_READ,
           "fetch_add": IBV_WR_ATOMIC_FETCH_AND_ADD, "cmp_swap": IBV_WR_ATOMIC_CMP_AND_SWP}
MTU = {256: IBV_MTU_256, 512: IBV_MTU_512, 1024: IBV_MTU_1024, 2048: IBV_MTU_2048}


class Peer:
    def __init__(self):
        self.ctx = Context(name="rxe0")
        self.pd = PD(self.ctx)
        self.cq = CQ(self.ctx, 512)
        self.regions, self.qps, self.done = {}, {}, []

    def memory(self, cmd):
        mr = MR(self.pd, cmd["bytes"], ACCESS)
        data = open(cmd["file"], "rb").read() if "file" in cmd else bytes(cmd["bytes"])
        mr.write(data, len(data))
        self.regions[mr.lkey] = mr
        return {"key": mr.rkey, "local_key": mr.lkey, "va": mr.buf}

    def save(self, cmd):
        mr = self.regions[cmd["key"]]
        with open(cmd["file"], "wb") as out:
            out.write(mr.read(mr.length, 0))
        return {}

    def queue_pair(self, cmd):
        cap = QPCap(max_send_wr=128, max_recv_wr=128, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1)
        qp = QP(self.pd, init, QPAttr())
        self.qps[qp.qp_num] = qp
        return {"qp": qp.qp_num}

    def connect(self, cmd):
        qp = self.qps[cmd["qp"]]
        packed = ipaddress.ip_address(cmd["ip"]).packed
        packed = bytes(10) + b"\xff\xff" + packed if len(packed) == 4 else packed
        gid = packed.hex(":", 2)
        route = GlobalRoute(dgid=GID(gid), sgid_index=int(os.environ["GID4"]))
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        qp.to_init(attr)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        attr.path_mtu = MTU[cmd.get("mtu", 1024)]
        attr.dest_qp_num = cmd["peer_qp"]
        attr.rq_psn = cmd.get("peer_psn", 0)
        attr.max_dest_rd_atomic = 16
        attr.min_rnr_timer = 12
        qp.to_rtr(attr)
        attr.sq_psn = cmd.get("psn", 0)
        attr.max_rd_atomic = 16
        attr.retry_cnt = 7
        attr.rnr_retry = 7
        attr.timeout = cmd.get("timeout", 14)
        qp.to_rts(attr)
        return {}

    def recv(self, cmd):
        sge = SGE(cmd["va"], cmd["bytes"], cmd["key"])
        self.qps[cmd["qp"]].post_recv(RecvWR(wr_id=cmd["id"], num_sge=1, sg=[sge]))
        return {}

    def post(self, cmd):
        sge = SGE(cmd["va"], cmd["bytes"], cmd["key"])
        wr = SendWR(wr_id=cmd["id"], opcode=OPCODES[cmd["do"]], num_sge=1, sg=[sge])
        if cmd["do"] in ("write", "read"):
            wr.set_wr_rdma(cmd["remote_key"], cmd["remote_va"])
        elif cmd["do"] == "fetch_add":
            wr.set_wr_atomic(cmd["remote_key"], cmd["remote_va"], cmd["add"], 0)
        elif cmd["do"] == "cmp_swap":
            wr.set_wr_atomic(cmd["remote_key"], cmd["remote_va"], cmd["compare"], cmd["swap"])
        self.qps[cmd["qp"]].post_send(wr)
        return {}

    def wait(self, cmd):
        end = time.monotonic() + cmd.get("seconds", 30)
        while len(self.done) < cmd["completions"] and time.monotonic() < end:
            count, found = self.cq.poll(16)
            for wc in found[:count]:
                status = STATUS.get(wc.status, str(wc.status))
                self.done.append({"id": wc.wr_id, "status": status, "bytes": wc.byte_len})
            if not count:
                time.sleep(0.001)
        done, self.done = self.done, []
        return {"completions": done}

    def counters(self, cmd):
        path = "/sys/class/infiniband/rxe0/ports/1/hw_counters/"
        return {name: int(open(path + name).read()) for name in sorted(os.listdir(path))
                if name != "lifespan"}

    def answer(self, cmd):
        action = self.post if cmd["do"] in OPCODES else getattr(self, cmd["do"])
        return action(cmd)


def main():
    peer, number = Peer(), 0
    open("/host/peer.ready", "w").close()
    while True:
        path = f"/host/cmd.{number}"
        if not os.path.exists(path):
            time.sleep(0.01)
            continue
        cmd = json.load(open(path))
        if cmd["do"] == "end":
            return
        try:
            answer = peer.answer(cmd)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        with open(f"/host/ans.{number}.new", "w") as out:
            json.dump(answer, out)
        os.rename(f"/host/ans.{number}.new", f"/host/ans.{number}")
        number += 1


main()
