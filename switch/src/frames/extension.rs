//! The extended headers behind a BTH: which an opcode has, as the library's parser says, and their fields.

use crate::roce::opcode::{CNP_NATIVE, CNP_ROCEV2};
use crate::roce::packet::{Aeth, AtomicEth, Deth, Headers, Reth};

use super::envelope::{Refused, slots};
use super::layout::Layouts;

slots! {
    /// RDMA.
    RethSlots { va, rkey, dma_len }
    /// Acknowledgement.
    AethSlots { syndrome, msn }
    /// ATOMIC request.
    AtomicSlots { va, rkey, swap_add, compare }
    /// ATOMIC acknowledgement.
    AtomicAckSlots { original }
    /// Datagram.
    DethSlots { qkey, sqpn }
    /// Immediate data.
    ImmSlots { data }
    /// Invalidate.
    IethSlots { rkey }
}

/// Where each extended header of an opcode begins behind the BTH.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    bytes: u8,
    reth: Option<u8>,
    aeth: Option<u8>,
    atomic: Option<u8>,
    atomic_ack: Option<u8>,
    deth: Option<u8>,
    imm: Option<u8>,
    ieth: Option<u8>,
}

/// The extended headers of every opcode.
#[derive(Debug)]
pub(super) struct Extensions {
    plans: Vec<Option<Plan>>,
    reth: RethSlots,
    aeth: AethSlots,
    atomic: AtomicSlots,
    atomic_ack: AtomicAckSlots,
    deth: DethSlots,
    imm: ImmSlots,
    ieth: IethSlots,
}

impl Extensions {
    pub(super) fn new(layouts: &Layouts) -> Result<Extensions, String> {
        let stack = |name: &'static str| layouts.stack(&[name]);
        Ok(Extensions {
            plans: (0..=255).map(|opcode| plan(layouts, opcode)).collect(),
            reth: RethSlots::new(&stack("reth")?, "reth")?,
            aeth: AethSlots::new(&stack("aeth")?, "aeth")?,
            atomic: AtomicSlots::new(&stack("atomic_eth")?, "atomic_eth")?,
            atomic_ack: AtomicAckSlots::new(&stack("atomic_ack_eth")?, "atomic_ack_eth")?,
            deth: DethSlots::new(&stack("deth")?, "deth")?,
            imm: ImmSlots::new(&stack("immdt")?, "immdt")?,
            ieth: IethSlots::new(&stack("ieth")?, "ieth")?,
        })
    }

    fn plan(&self, opcode: u8) -> Option<&Plan> {
        self.plans.get(usize::from(opcode))?.as_ref()
    }

    /// Bytes of the extended headers of an opcode; `None` if it is not spoken here.
    pub(super) fn bytes(&self, opcode: u8) -> Option<usize> {
        self.plan(opcode).map(|plan| plan.bytes.into())
    }

    /// Writes the extended headers and gives what is behind them. `None`: the opcode is not spoken, or `headers` are not those
    /// it has.
    pub(super) fn write<'o>(&self, headers: &Headers, out: &'o mut [u8]) -> Option<&'o mut [u8]> {
        let opcode = headers.bth.opcode;
        let plan = self.plan(opcode)?;
        let reserved = opcode == CNP_ROCEV2;
        if !reserved && headers.extended_bytes() != u32::from(plan.bytes) {
            return None;
        }
        if plan.bytes == 0 {
            return Some(out);
        }
        let (out, behind) = out.split_at_mut_checked(plan.bytes.into())?;
        out.fill(0);
        if let Some(at) = plan.reth {
            let (to, reth) = (&mut out[at.into()..], headers.reth?);
            self.reth.va.write(to, reth.va);
            self.reth.rkey.write(to, reth.rkey.into());
            self.reth.dma_len.write(to, reth.len_bytes.into());
        }
        if let Some(at) = plan.aeth {
            let (to, aeth) = (&mut out[at.into()..], headers.aeth?);
            self.aeth.syndrome.write(to, aeth.syndrome.into());
            self.aeth.msn.write(to, aeth.msn.into());
        }
        if let Some(at) = plan.atomic {
            let (to, atomic) = (&mut out[at.into()..], headers.atomic?);
            self.atomic.va.write(to, atomic.va);
            self.atomic.rkey.write(to, atomic.rkey.into());
            self.atomic.swap_add.write(to, atomic.swap_or_add);
            self.atomic.compare.write(to, atomic.compare);
        }
        if let Some(at) = plan.atomic_ack {
            self.atomic_ack.original.write(&mut out[at.into()..], headers.atomic_ack?);
        }
        if let Some(at) = plan.deth {
            let (to, deth) = (&mut out[at.into()..], headers.deth?);
            self.deth.qkey.write(to, deth.qkey.into());
            self.deth.sqpn.write(to, deth.src_qp.into());
        }
        if let Some(at) = plan.imm {
            self.imm.data.write(&mut out[at.into()..], headers.imm?.into());
        }
        if let Some(at) = plan.ieth {
            self.ieth.rkey.write(&mut out[at.into()..], headers.ieth?.into());
        }
        Some(behind)
    }

    /// Reads the extended headers behind a BTH to where they belong, and gives what is behind them.
    pub(super) fn read<'a>(
        &self,
        headers: &mut Headers,
        from: &'a [u8],
    ) -> Result<&'a [u8], Refused> {
        let plan = self.plan(headers.bth.opcode).ok_or(Refused::UnknownOpcode)?;
        if plan.bytes == 0 {
            return Ok(from);
        }
        let (from, behind) = from.split_at_checked(plan.bytes.into()).ok_or(Refused::TooShort)?;
        let part = |at: Option<u8>| at.map(|at| &from[at.into()..]);
        headers.reth = part(plan.reth).map(|from| Reth {
            va: self.reth.va.read(from),
            rkey: self.reth.rkey.read(from) as u32,
            len_bytes: self.reth.dma_len.read(from) as u32,
        });
        headers.aeth = part(plan.aeth).map(|from| Aeth {
            syndrome: self.aeth.syndrome.read(from) as u8,
            msn: self.aeth.msn.read(from) as u32,
        });
        headers.atomic = part(plan.atomic).map(|from| AtomicEth {
            va: self.atomic.va.read(from),
            rkey: self.atomic.rkey.read(from) as u32,
            swap_or_add: self.atomic.swap_add.read(from),
            compare: self.atomic.compare.read(from),
        });
        headers.atomic_ack = part(plan.atomic_ack).map(|from| self.atomic_ack.original.read(from));
        headers.deth = part(plan.deth).map(|from| Deth {
            qkey: self.deth.qkey.read(from) as u32,
            src_qp: self.deth.sqpn.read(from) as u32,
        });
        headers.imm = part(plan.imm).map(|from| self.imm.data.read(from) as u32);
        headers.ieth = part(plan.ieth).map(|from| self.ieth.rkey.read(from) as u32);
        Ok(behind)
    }
}

/// The plan of an opcode; `None` if the library does not know it, or it has headers that the transport does not.
fn plan(layouts: &Layouts, opcode: u8) -> Option<Plan> {
    let mut plan = Plan::default();
    for (name, at) in layouts.extensions(opcode)? {
        let at = u8::try_from(at).ok()?;
        let bytes = u8::try_from(layouts.stack(&[name]).ok()?.bytes()).ok()?;
        plan.bytes = plan.bytes.max(at.checked_add(bytes)?);
        let place = match name {
            "reth" => &mut plan.reth,
            "aeth" => &mut plan.aeth,
            "atomic_eth" => &mut plan.atomic,
            "atomic_ack_eth" => &mut plan.atomic_ack,
            "deth" => &mut plan.deth,
            "immdt" => &mut plan.imm,
            "ieth" => &mut plan.ieth,
            "cnp_reserved" if opcode == CNP_ROCEV2 => continue,
            _ => return None,
        };
        *place = Some(at);
    }
    // The transport's services, and CNPs.
    let spoken = matches!(opcode >> 5, 0 | 1 | 3) || opcode == CNP_NATIVE || opcode == CNP_ROCEV2;
    spoken.then_some(plan)
}
