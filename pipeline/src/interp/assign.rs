//! Assignments.

use super::pass::{End, Pass};
use crate::exec::flags;
use crate::ids::*;
use crate::ir::layout::{ones, write_run};
use crate::ir::{LValue, SourceSpan, StdField};
use crate::trace::Event;

impl Pass<'_> {
    /// Assigns; `value` fits. A field of a header that is not valid stays as it is.
    pub(super) fn assign(
        &mut self,
        to: &LValue,
        value: u128,
        span: Option<SourceSpan>,
    ) -> Result<(), End> {
        match to {
            LValue::Field(instance, field) => {
                match self.engine.quick(*instance, *field) {
                    Some(quick) => self.scratch.phv.set_quick(quick, value as u64),
                    None => self.write_field(*instance, *field, value),
                }
                self.note_assigned(*instance, *field);
            }
            LValue::FieldSlice { instance, field, high, low } => {
                let mask = ones(high - low + 1) << low;
                let value = self.field(*instance, *field) & !mask | value << low & mask;
                self.write_field(*instance, *field, value);
                self.note_assigned(*instance, *field);
            }
            LValue::Element { instance, field, index } => {
                if self.scratch.phv.is_valid(*instance) {
                    let (bit, bits) = self.element_place(*instance, *field, *index)?;
                    write_run(self.scratch.phv.header_mut(*instance), bit, bits, value);
                }
            }
            LValue::Meta(meta) => self.scratch.phv.meta[meta.index()] = value,
            LValue::Local(local) => self.scratch.phv.locals[self.base + local.index()] = value,
            LValue::Std(field) => self.assign_std(*field, value),
        }
        if self.sink.is_some() && !matches!(to, LValue::Local(_)) {
            let (to, valid) = (to.clone(), self.scratch.phv.valid);
            self.trace(|_| Event::Set { to, value, valid, span });
        }
        Ok(())
    }

    fn write_field(&mut self, instance: InstanceId, field: FieldId, value: u128) {
        self.layout(instance, field).write(self.scratch.phv.header_mut(instance), value);
    }

    fn note_assigned(&mut self, instance: InstanceId, field: FieldId) {
        for (owner, owned, bit) in &self.engine.checksum_fields {
            if (*owner, *owned) == (instance, field) && self.scratch.phv.is_valid(instance) {
                self.scalars.assigned |= bit;
            }
        }
    }

    fn assign_std(&mut self, field: StdField, value: u128) {
        let (packet, meta) = (&mut *self.packet, &mut *self.meta);
        match field {
            StdField::EgressPort => packet.egress_port = value as u16,
            StdField::MulticastGroup => meta.multicast_group = value as u16,
            StdField::TrafficClass => {
                packet.traffic_class = value as u8;
                packet.flags |= flags::CLASS_ASSIGNED;
            }
            StdField::PriorityGroup => {
                packet.priority_group = value as u8;
                packet.flags |= flags::GROUP_ASSIGNED;
            }
            StdField::Ect => packet.flags = packet.flags & !flags::ECT | value as u8 & 1,
            StdField::Color => self.set_color(value as u8),
            StdField::NotBeforeNs => {
                meta.not_before_ns = value as u64;
                meta.delayed = (meta.not_before_ns != 0).into();
            }
            StdField::HoldPackets => meta.hold_packets = value as u16,
            StdField::HoldTimeoutNs => meta.hold_timeout_ns = value as u64,
            // Nothing else is writable; the verifier refuses it.
            _ => {}
        }
    }
}
