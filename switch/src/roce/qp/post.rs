//! Posting work: every check that can be made before a packet leaves.

use super::super::memory::{Access, AccessError, MemoryTable};
use super::super::opcode::Service;
use super::super::requester::MAX_OUTSTANDING;
use super::super::verbs::{PostError, RecvWr, SendOp, SendWr, Sge, Status};
use super::{QpState, QueuePair};

/// Largest message (IBTA 9.7.7).
const MAX_MESSAGE_BYTES: u32 = 1 << 31;

impl QueuePair {
    /// Posts a send work request. In ERR it is accepted and flushed.
    ///
    /// # Errors
    /// Why it was not accepted; nothing has changed then.
    pub fn post_send(&mut self, wr: SendWr, memory: &MemoryTable) -> Result<(), PostError> {
        if !matches!(self.state, QpState::Rts | QpState::Sqd | QpState::Err) {
            return Err(PostError::WrongState);
        }
        if self.requester.queued() >= self.sq_depth {
            return Err(PostError::QueueFull);
        }
        self.check_operation(&wr)?;
        let packets = self.packets_of(&wr)?;
        let need = match wr.op {
            SendOp::Read(_) | SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. } => {
                Access::LOCAL_WRITE
            }
            _ => Access::NONE,
        };
        check_local(&wr.local, need, memory)?;
        self.requester.post(self.link.service, wr, packets);
        if self.state == QpState::Err {
            self.flush(Status::WorkRequestFlushed);
        }
        Ok(())
    }

    /// Posts a receive work request. In ERR it is accepted and flushed.
    ///
    /// # Errors
    /// Why it was not accepted.
    pub fn post_recv(&mut self, wr: RecvWr, memory: &MemoryTable) -> Result<(), PostError> {
        if self.state == QpState::Reset {
            return Err(PostError::WrongState);
        }
        if self.responder.posted() >= self.rq_depth {
            return Err(PostError::QueueFull);
        }
        check_local(&wr.local, Access::LOCAL_WRITE, memory)?;
        self.responder.post(wr);
        if self.state == QpState::Err {
            self.flush(Status::WorkRequestFlushed);
        }
        Ok(())
    }

    fn check_operation(&self, wr: &SendWr) -> Result<(), PostError> {
        let supported = match (self.link.service, wr.op) {
            (Service::Rc, op) if self.link.selective => {
                matches!(op, SendOp::Write(_) | SendOp::WriteImm(..))
            }
            (Service::Ud, SendOp::Datagram { .. }) => true,
            (Service::Ud, _) | (_, SendOp::Datagram { .. }) => false,
            (Service::Rc, SendOp::Read(_) | SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. }) => {
                self.requester.limits.max_rd_atomic > 0 || self.state == QpState::Err
            }
            (Service::Rc, _) => true,
            (Service::Uc, op) => matches!(
                op,
                SendOp::Send | SendOp::SendImm(_) | SendOp::Write(_) | SendOp::WriteImm(..)
            ),
        };
        if supported { Ok(()) } else { Err(PostError::Unsupported) }
    }

    /// PSNs of the request, if its length is allowed.
    fn packets_of(&self, wr: &SendWr) -> Result<u32, PostError> {
        let len = wr.local.len;
        let one = matches!(wr.op, SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. });
        let datagram = self.link.service == Service::Ud;
        if (one && len != 8) || (datagram && len > self.link.mtu.bytes()) || len > MAX_MESSAGE_BYTES
        {
            return Err(PostError::BadLength);
        }
        let packets = self.link.mtu.packets(len);
        // 2^31 bytes at a path MTU of 256 would take 2^23 PSNs, one more than can be distinguished.
        if packets > MAX_OUTSTANDING { Err(PostError::BadLength) } else { Ok(packets) }
    }
}

fn check_local(local: &Sge, need: Access, memory: &MemoryTable) -> Result<(), PostError> {
    if local.va.checked_add(u64::from(local.len)).is_none() {
        return Err(PostError::BadMemory(AccessError::OutOfBounds));
    }
    memory.check(local.key, local.va, local.len, need).map_err(PostError::BadMemory)
}
