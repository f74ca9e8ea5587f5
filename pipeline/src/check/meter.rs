//! Rates of meters, and counts of entries: units, and the requirements of RFC 2697 and RFC 2698.
//!
//! The same for an array of meters and for the meter of an entry. The effect of a packet's colour is up to the program.

use super::cx::Cx;
use super::rates;
use crate::ast::entries::CountDecl;
use crate::ast::{EntryDecl, MeterRates, Name};
use crate::diag::codes;
use crate::ir::{MeterKind, Table};
use wireyard_tables::counter::Count;
use wireyard_tables::meter::MeterConfig;

impl Cx<'_> {
    /// The rates of an entry, where its table has meters.
    pub(super) fn entry_meter(&mut self, table: &Table, entry: &EntryDecl) -> Option<MeterConfig> {
        let (rates, span) = entry.meter.as_ref()?;
        let Some(kind) = table.meter else {
            let text = format!("the entries of table `{}` have no meters", table.name);
            let help =
                "add `meter: { type: trtcm, unit: bytes }` to the table, or take the rates away";
            self.report.error(codes::METER, *span, text).help(help);
            return None;
        };
        self.meter_config(rates, kind)
    }

    /// The count of an entry, where its table has counters.
    pub(super) fn entry_count(&mut self, table: &Table, entry: &EntryDecl) -> Option<Count> {
        let (CountDecl { packets, bytes }, span) = entry.counter.as_ref()?;
        if !table.counters {
            let text = format!("the entries of table `{}` have no counters", table.name);
            let help = "add `counters: true` to the table, or take the count away";
            self.report.error(codes::ENTRY, *span, text).help(help);
            return None;
        }
        Some(Count { packets: *packets, bytes: *bytes })
    }

    pub(super) fn meter_config(
        &mut self,
        decl: &MeterRates,
        kind: MeterKind,
    ) -> Option<MeterConfig> {
        let cir = self.measured(&decl.cir, rates::rate, kind.packets);
        let cbs = self.measured(&decl.cbs, rates::size, kind.packets);
        let (wanted, refused) = if kind.two_rates {
            ("a two-rate meter has `pir` and `pbs`, and no `ebs`", decl.ebs.as_ref())
        } else {
            (
                "a single-rate meter has `cir`, `cbs` and, unless it is 0, `ebs`: no `pir` or `pbs`",
                decl.pir.as_ref().or(decl.pbs.as_ref()),
            )
        };
        if let Some(refused) = refused {
            return self.report.refuse(codes::METER, refused.span, wanted);
        }
        let config = match (kind.two_rates, &decl.pir, &decl.pbs, &decl.ebs) {
            (true, Some(pir), Some(pbs), _) => {
                let pir_value = self.measured(pir, rates::rate, kind.packets)?;
                let pbs = self.measured(pbs, rates::size, kind.packets)?;
                let (cir, cbs) = (cir?, cbs?);
                if pir_value < cir {
                    let text = "the peak rate is below the committed rate (RFC 2698 section 2)";
                    return self.report.refuse(codes::METER, pir.span, text);
                }
                MeterConfig::TwoRate { cir, cbs, pir: pir_value, pbs }
            }
            (false, _, _, Some(ebs)) => {
                let ebs = self.measured(ebs, rates::size, kind.packets)?;
                MeterConfig::SingleRate { cir: cir?, cbs: cbs?, ebs }
            }
            (false, _, _, None) => MeterConfig::SingleRate { cir: cir?, cbs: cbs?, ebs: 0 },
            (true, pir, pbs, _) => {
                let missing = match (pir, pbs) {
                    (Some(_), _) => "`pbs` is missing",
                    (None, Some(_)) => "`pir` is missing",
                    (None, None) => "`pir` and `pbs` are missing",
                };
                self.report.error(codes::METER, decl.cir.span, missing).note(wanted);
                return None;
            }
        };
        let no_burst = match config {
            MeterConfig::SingleRate { cbs, ebs, .. } => cbs == 0 && ebs == 0,
            MeterConfig::TwoRate { cbs, pbs, .. } => cbs == 0 || pbs == 0,
        };
        if no_burst {
            let text = "a burst of 0 lets nothing through";
            let help = "give a burst of at least the largest packet";
            self.report.error(codes::METER, decl.cbs.span, text).help(help);
            return None;
        }
        Some(config)
    }

    fn measured(
        &mut self,
        text: &Name,
        read: fn(&str, bool) -> Result<u64, String>,
        packets: bool,
    ) -> Option<u64> {
        match read(&text.value, packets) {
            Ok(value) => Some(value),
            Err(why) => self.report.refuse(codes::METER, text.span, why),
        }
    }
}
