//! P4Infos that contradict a program, one difference each; and what may differ.

use super::*;
use crate::p4runtime::described;
use crate::p4runtime::p4_source;

fn named(id: u32, name: &str) -> Option<p4::Preamble> {
    Some(p4::Preamble { id, name: name.to_owned(), ..Default::default() })
}

fn bits(bitwidth: i32) -> Option<p4::P4DataTypeSpec> {
    use p4::p4_bitstring_like_type_spec::TypeSpec as Bits;
    let bit = Bits::Bit(p4::P4BitTypeSpec { bitwidth });
    let bits = p4::P4BitstringLikeTypeSpec { type_spec: Some(bit), ..Default::default() };
    let spec = p4::p4_data_type_spec::TypeSpec::Bitstring(bits);
    Some(p4::P4DataTypeSpec { type_spec: Some(spec) })
}

fn full() -> p4::P4Info {
    let action = p4::ActionRef { id: 0x0100_0001, ..Default::default() };
    p4::P4Info {
        tables: vec![p4::Table {
            preamble: named(0x0200_0001, "in.t"),
            action_refs: vec![action],
            implementation_id: 0x1100_0001,
            size: 64,
            ..Default::default()
        }],
        actions: vec![p4::Action { preamble: named(0x0100_0001, "a"), params: Vec::new() }],
        action_profiles: vec![p4::ActionProfile {
            preamble: named(0x1100_0001, "in.sel"),
            with_selector: true,
            ..Default::default()
        }],
        meters: vec![p4::Meter { preamble: named(0x1400_0001, "in.m"), ..Default::default() }],
        direct_counters: vec![p4::DirectCounter {
            preamble: named(0x1300_0001, "in.d"),
            direct_table_id: 0x0200_0001,
            ..Default::default()
        }],
        registers: vec![p4::Register {
            preamble: named(0x1600_0001, "in.r"),
            type_spec: bits(32),
            ..Default::default()
        }],
        digests: vec![p4::Digest { preamble: named(0x1700_0001, "d"), type_spec: bits(8) }],
        ..Default::default()
    }
}

type Change = fn(&mut p4::P4Info);

#[test]
fn a_p4info_that_contradicts_its_program_is_refused() {
    let changes: [(&str, Change); 11] = [
        ("register type", |info| info.registers[0].type_spec = bits(64)),
        ("digest type", |info| info.digests[0].type_spec = bits(9)),
        ("implementation", |info| info.tables[0].implementation_id = 0),
        ("selector", |info| info.action_profiles[0].with_selector = false),
        ("weights", |info| info.action_profiles[0].weights_disallowed = true),
        ("const default", |info| info.tables[0].const_default_action_id = 0x0100_0001),
        ("const table", |info| info.tables[0].is_const_table = true),
        ("scope", |info| info.tables[0].action_refs[0].set_scope(Scope::TableOnly)),
        ("direct table", |info| info.direct_counters[0].direct_table_id = 0x0200_0002),
        ("meter type", |info| {
            let mut spec = p4::MeterSpec::default();
            spec.set_type(p4::meter_spec::Type::SingleRateTwoColor);
            info.meters[0].spec = Some(spec);
        }),
        ("action", |info| {
            info.actions.push(p4::Action { preamble: named(9, "b"), params: Vec::new() })
        }),
    ];
    let own = full();
    for (what, change) in changes {
        let mut given = own.clone();
        change(&mut given);
        assert!(agrees(&given, &own).is_err(), "{what}");
    }
    let mut given = own.clone();
    given.tables[0].size = 1024;
    given.action_profiles[0].size = 9;
    given.digests.clear();
    assert_eq!(agrees(&given, &own), Ok(()));
}

#[test]
fn multicast_groups_that_the_switch_does_not_have_are_refused() {
    let with = |size, each| {
        let properties = p4::PlatformProperties {
            multicast_group_table_size: size,
            multicast_group_table_max_replicas_per_entry: each,
            ..Default::default()
        };
        let package = p4::PkgInfo { platform_properties: Some(properties), ..Default::default() };
        has_room(&p4::P4Info { pkg_info: Some(package), ..Default::default() })
    };
    assert_eq!(with(65_535, 4096), Ok(()));
    assert!(with(i32::MAX, 0).is_err() && with(1, 4097).is_err());
}

/// What JSON of bmv2 does not say is served as it was given, or refused by [`agrees`].
#[test]
fn a_p4info_beside_json_keeps_the_documentation_of_the_package() {
    let doc = p4::Documentation { brief: "b".into(), description: "d".into() };
    let package = p4::PkgInfo { doc: Some(doc), arch: "v1model".into(), ..Default::default() };
    let given = p4::P4Info { pkg_info: Some(package), ..Default::default() };
    assert_eq!(p4_source::p4info(&described::info(&given)), given);
}
