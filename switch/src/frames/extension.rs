//! The extended headers after a BTH: those of each opcode, according to the library's parser, and their fields.

use crate::roce::opcode::{CNP_NATIVE, CNP_ROCEV2};
use crate::roce::packet::{Aeth, AtomicEth, Deth, Headers, Leading, Reth, Trailing};

use super::envelope::{Refused, slots};
use super::layout::{LayoutError, Layouts};

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

/// The offset after the BTH of each extended header of an opcode.
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
    pub(super) fn new(layouts: &Layouts) -> Result<Extensions, LayoutError> {
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

    /// Length of the extended headers of an opcode; `None` for an unsupported one.
    pub(super) fn bytes(&self, opcode: u8) -> Option<usize> {
        self.plan(opcode).map(|plan| plan.bytes.into())
    }

    /// Writes the extended headers and returns the bytes after them. `None`: the opcode is not supported, or `headers`
    /// are not those of the opcode.
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
        // Every header present has an offset, and their total length is that of the plan: so all offsets are used.
        match headers.leading {
            Leading::None => {}
            Leading::Reth(reth) => {
                let to = out.get_mut(plan.reth?.into()..)?;
                self.reth.va.write(to, reth.va);
                self.reth.rkey.write(to, reth.rkey.into());
                self.reth.dma_len.write(to, reth.len_bytes.into());
            }
            Leading::Aeth(aeth) => {
                let to = out.get_mut(plan.aeth?.into()..)?;
                self.aeth.syndrome.write(to, aeth.syndrome.into());
                self.aeth.msn.write(to, aeth.msn.into());
            }
            Leading::Atomic(atomic) => {
                let to = out.get_mut(plan.atomic?.into()..)?;
                self.atomic.va.write(to, atomic.va);
                self.atomic.rkey.write(to, atomic.rkey.into());
                self.atomic.swap_add.write(to, atomic.swap_or_add);
                self.atomic.compare.write(to, atomic.compare);
            }
            Leading::Deth(deth) => {
                let to = out.get_mut(plan.deth?.into()..)?;
                self.deth.qkey.write(to, deth.qkey.into());
                self.deth.sqpn.write(to, deth.src_qp.into());
            }
        }
        match headers.trailing {
            // Bits of a selective acknowledgement are part of the payload.
            Trailing::None | Trailing::Sack(_) => {}
            Trailing::AtomicAck(original) => {
                self.atomic_ack.original.write(out.get_mut(plan.atomic_ack?.into()..)?, original);
            }
            Trailing::Imm(imm) => {
                self.imm.data.write(out.get_mut(plan.imm?.into()..)?, imm.into());
            }
            Trailing::Ieth(rkey) => {
                self.ieth.rkey.write(out.get_mut(plan.ieth?.into()..)?, rkey.into());
            }
        }
        Some(behind)
    }

    /// Parses the extended headers after a BTH into `headers`, and returns the bytes after them.
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
        let part = |at: u8| &from[at.into()..];
        if let Some(from) = plan.reth.map(part) {
            headers.leading = Leading::Reth(Reth {
                va: self.reth.va.read(from),
                rkey: self.reth.rkey.read(from) as u32,
                len_bytes: self.reth.dma_len.read(from) as u32,
            });
        }
        if let Some(from) = plan.aeth.map(part) {
            headers.leading = Leading::Aeth(Aeth {
                syndrome: self.aeth.syndrome.read(from) as u8,
                msn: self.aeth.msn.read(from) as u32,
            });
        }
        if let Some(from) = plan.atomic.map(part) {
            headers.leading = Leading::Atomic(AtomicEth {
                va: self.atomic.va.read(from),
                rkey: self.atomic.rkey.read(from) as u32,
                swap_or_add: self.atomic.swap_add.read(from),
                compare: self.atomic.compare.read(from),
            });
        }
        if let Some(from) = plan.deth.map(part) {
            headers.leading = Leading::Deth(Deth {
                qkey: self.deth.qkey.read(from) as u32,
                src_qp: self.deth.sqpn.read(from) as u32,
            });
        }
        if let Some(from) = plan.atomic_ack.map(part) {
            headers.trailing = Trailing::AtomicAck(self.atomic_ack.original.read(from));
        }
        if let Some(from) = plan.imm.map(part) {
            headers.trailing = Trailing::Imm(self.imm.data.read(from) as u32);
        }
        if let Some(from) = plan.ieth.map(part) {
            headers.trailing = Trailing::Ieth(self.ieth.rkey.read(from) as u32);
        }
        Ok(behind)
    }
}

/// The plan of an opcode; `None` if the library does not define it, or it has headers that the transport does not
/// support.
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
    let count = |places: &[Option<u8>]| places.iter().flatten().count();
    let leading = count(&[plan.reth, plan.aeth, plan.atomic, plan.deth]);
    if leading > 1 || count(&[plan.atomic_ack, plan.imm, plan.ieth]) > 1 {
        return None;
    }
    // The services of the transport, and CNPs.
    let spoken = matches!(opcode >> 5, 0 | 1 | 3) || opcode == CNP_NATIVE || opcode == CNP_ROCEV2;
    spoken.then_some(plan)
}
