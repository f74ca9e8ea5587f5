use super::*;
use crate::interp::tests::build::Build;
use crate::ir;
use wireyard_tables::{FieldError, Match, MatchKind};

fn exact(values: &[u128]) -> Vec<SetMember> {
    values.iter().map(|value| vec![Match::Exact(*value)]).collect()
}

fn key(name: &str, bits: u32, kind: MatchKind) -> ir::MatchField {
    ir::MatchField { name: name.into(), bits, kind, display: ir::Display::Hex }
}

/// A state with one value set.
fn set_of(keys: Vec<ir::MatchField>, size: u32) -> State {
    let program = program(|program| {
        let set = ir::ValueSet { name: "set".into(), keys, size, initial: Vec::new() };
        program.value_sets = [set].into_iter().collect();
    });
    state(&program, 1)
}

fn program(change: impl FnOnce(&mut Program)) -> Arc<Program> {
    let mut program = Build::new().program;
    let value = ir::code::Local { name: "value".into(), bits: 12 };
    let register = ir::Register { name: "r".into(), cells: vec![value], size: 4 };
    program.registers.push(register);
    program.counters.push(ir::Counter { name: "c".into(), size: 2 });
    let kind = ir::MeterKind { two_rates: true, packets: false };
    program.meters.push(ir::Meter { name: "m".into(), kind, size: 2 });
    let (name, initial) = ("set".into(), exact(&[9, 3, 3]));
    let keys = vec![key("", 8, MatchKind::Exact)];
    program.value_sets.push(ir::ValueSet { name, keys, size: 2, initial });
    change(&mut program);
    Arc::new(program)
}

fn state(program: &Arc<Program>, workers: usize) -> State {
    State::new(program, StateOptions { workers, ..StateOptions::default() }).unwrap()
}

#[test]
fn a_value_set_changes_as_a_whole_or_not_at_all() {
    let state = state(&program(|_| {}), 1);
    let set = ValueSetId(0);
    assert_eq!(state.value_set(set), Some(exact(&[3, 9])));
    assert_eq!(
        state.set_value_set(set, &exact(&[1, 2, 3])),
        Err(ValueSetError::Full { found: 3, size: 2 })
    );
    let error = Box::new(FieldError::TooWide { value: 256, bits: 8 });
    let wide = ValueSetError::Field { key: String::new(), error };
    assert_eq!(state.set_value_set(set, &exact(&[256])), Err(wide));
    assert_eq!(state.set_value_set(ValueSetId(1), &[]), Err(ValueSetError::NoSuchSet));
    assert!(state.value_set_contains(set, 9));
    state.set_value_set(set, &exact(&[255])).unwrap();
    assert!(state.value_set_contains(set, 255) && !state.value_set_contains(set, 9));
}

/// Whether a match matches a value, as the language defines it.
fn takes(one: &Match, value: u128, bits: u32) -> bool {
    match *one {
        Match::Exact(wanted) | Match::Optional(Some(wanted)) => value == wanted,
        Match::Lpm { value: wanted, prefix_len } => {
            value >> (bits - prefix_len) == wanted >> (bits - prefix_len)
        }
        Match::Ternary { value: wanted, mask } => value & mask == wanted,
        Match::Range { lo, hi } => lo <= value && value <= hi,
        Match::Optional(None) | Match::Any => true,
    }
}

#[test]
fn members_match_by_mask_prefix_and_range_in_every_key() {
    let kinds = [
        MatchKind::Exact,
        MatchKind::Lpm,
        MatchKind::Ternary,
        MatchKind::Range,
        MatchKind::Optional,
    ];
    let mut seed = 7_u64;
    let mut random = |below: u128| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        u128::from(seed >> 33) % below
    };
    for _ in 0..80 {
        let (first, second) = (1 + random(6) as u32, 1 + random(6) as u32);
        let keys = [("a", first), ("b", second)]
            .map(|(name, bits)| key(name, bits, kinds[random(5) as usize]));
        let mut one = |field: &ir::MatchField| {
            let most = ir::layout::ones(field.bits);
            let (a, b) = (random(most + 1), random(most + 1));
            let len = random(u128::from(field.bits)) as u32;
            match field.kind {
                MatchKind::Exact => Match::Exact(a),
                MatchKind::Lpm => {
                    Match::Lpm { value: a & !ir::layout::ones(len), prefix_len: field.bits - len }
                }
                MatchKind::Ternary => Match::Ternary { value: a & b, mask: b },
                MatchKind::Range => Match::Range { lo: a.min(b), hi: a.max(b) },
                MatchKind::Optional => Match::Optional((a & 1 == 0).then_some(b)),
            }
        };
        let members: Vec<SetMember> = (0..3).map(|_| keys.iter().map(&mut one).collect()).collect();
        let state = set_of(keys.to_vec(), 3);
        state.set_value_set(ValueSetId(0), &members).unwrap();
        for a in 0..1 << first {
            for b in 0..1 << second {
                let wanted =
                    members.iter().any(|one| takes(&one[0], a, first) && takes(&one[1], b, second));
                let found = state.value_set_contains(ValueSetId(0), a << second | b);
                assert_eq!(found, wanted, "{keys:?} {members:?} {a} {b}");
            }
        }
        // The members that are read equal those written, and can be written again.
        let read = state.value_set(ValueSetId(0)).unwrap();
        state.set_value_set(ValueSetId(0), &read).unwrap();
        assert_eq!(state.value_set(ValueSetId(0)).unwrap(), read);
    }
}

#[test]
fn wide_keys_and_the_ends_of_ranges_match() {
    let state = set_of(vec![key("", 128, MatchKind::Range)], 2);
    let (set, all) = (ValueSetId(0), Match::Range { lo: 0, hi: u128::MAX });
    state.set_value_set(set, &[vec![all]]).unwrap();
    assert_eq!(state.value_set(set).unwrap(), [vec![Match::Any]]);
    assert!(state.value_set_contains(set, 0) && state.value_set_contains(set, u128::MAX));
    let end = Match::Range { lo: u128::MAX - 2, hi: u128::MAX };
    state.set_value_set(set, &[vec![end]]).unwrap();
    assert!(!state.value_set_contains(set, u128::MAX - 3));
    assert!(
        state.value_set_contains(set, u128::MAX - 2) && state.value_set_contains(set, u128::MAX)
    );
}

#[test]
fn members_that_their_keys_do_not_take_are_refused() {
    let keys = vec![key("a", 16, MatchKind::Range), key("b", 16, MatchKind::Range)];
    let state = set_of([keys, vec![key("c", 16, MatchKind::Range)]].concat(), 8);
    let set = ValueSetId(0);
    let refused = |member: &[Match]| state.set_value_set(set, &[member.to_vec()]).unwrap_err();
    assert_eq!(refused(&[Match::Any]), ValueSetError::Keys { found: 1, keys: 3 });
    let turned = Match::Range { lo: 2, hi: 1 };
    let of_key =
        |key: &str, error| ValueSetError::Field { key: key.into(), error: Box::new(error) };
    let empty = FieldError::EmptyRange { lo: 2, hi: 1 };
    assert_eq!(refused(&[Match::Any, turned, Match::Any]), of_key("b", empty));
    let found = Match::Ternary { value: 1, mask: 1 };
    let wrong = FieldError::WrongKind { kind: MatchKind::Range, found };
    assert_eq!(refused(&[found, Match::Any, Match::Any]), of_key("a", wrong));
    // 30 prefixes in each key: 900 are accepted, 27,000 are refused.
    let worst = Match::Range { lo: 1, hi: 0xfffe };
    assert_eq!(refused(&[worst, worst, worst]), ValueSetError::TooManyMasks);
    state.set_value_set(set, &[vec![worst, worst, Match::Any]]).unwrap();
    let several: Vec<SetMember> =
        (0..8).map(|lo| vec![worst, Match::Range { lo: 2 * lo + 1, hi: 0xfffe }, worst]).collect();
    assert_eq!(state.set_value_set(set, &several), Err(ValueSetError::TooManyMasks));
    assert!(state.value_set_contains(set, 1 << 32 | 1 << 16));
}

#[test]
fn an_index_out_of_range_is_told() {
    let state = state(&program(|_| {}), 1);
    state.count(0, CounterId(0), 1, 100);
    state.count(0, CounterId(0), 2, 100);
    state.count(0, CounterId(0), u128::MAX, 100);
    assert_eq!(state.counter(CounterId(0)).unwrap().read(1).unwrap().packets, 1);
    assert_eq!(state.statistics().out_of_range_counts.read(0).unwrap().packets, 2);
    let meter = |index| state.meter(MeterId(0), index, 100, 0, Time::ZERO);
    assert_eq!((meter(1), meter(2), meter(u128::MAX)), (0, 2, 2));
}

#[test]
fn what_has_the_same_shape_keeps_its_contents() {
    let old = state(&program(|_| {}), 1);
    old.register(RegisterId(0)).unwrap().store(1, 0, 0xfabc);
    old.count(0, CounterId(0), 0, 64);
    old.set_value_set(ValueSetId(0), &exact(&[7])).unwrap();
    let same = program(|p| {
        p.name = "same".into();
    });
    let new = old.replace(&same, StateOptions::default()).unwrap();
    assert_eq!(new.register(RegisterId(0)).unwrap().load(1, 0), Some(0xabc));
    assert_eq!(new.counter(CounterId(0)).unwrap().read(0).unwrap().packets, 1);
    assert_eq!(new.value_set(ValueSetId(0)), Some(exact(&[7])));
    let other = program(|p| {
        p.registers[RegisterId(0)].size = 5;
        p.counters[CounterId(0)].name = "d".into();
        p.value_sets[ValueSetId(0)].keys[0].bits = 16;
    });
    let new = old.replace(&other, StateOptions::default()).unwrap();
    assert_eq!(new.register(RegisterId(0)).unwrap().load(1, 0), Some(0));
    assert_eq!(new.counter(CounterId(0)).unwrap().read(0).unwrap().packets, 0);
    assert_eq!(new.value_set(ValueSetId(0)), Some(exact(&[3, 9])));
}

/// Rates of the one kind are no rates of the other.
#[test]
fn a_table_keeps_its_meters_only_where_they_are_of_the_same_kind() {
    let with = |two_rates, packets| {
        let mut build = Build::new();
        let table = build.table("t", &[], &[ActionId(0)], ActionId(0));
        build.program.tables[table].meter = Some(ir::MeterKind { two_rates, packets });
        Arc::new(build.program)
    };
    let old = state(&with(true, false), 1);
    let kept = |program| old.prepare(&program, StateOptions::default()).unwrap().1.tables;
    assert_eq!(kept(with(true, false)), [TableId(0)]);
    assert_eq!(kept(with(false, false)), []);
    assert_eq!(kept(with(true, true)), []);
}

#[test]
fn locked_updates_of_two_workers_all_count() {
    let state = state(&program(|_| {}), 2);
    let register = state.register(RegisterId(0)).unwrap();
    let count = || {
        for _ in 0..1500 {
            let token = state.lock(RegisterId(0), 2);
            let value = register.load(2, 0).unwrap();
            register.store(2, 0, value + 1);
            token.into_iter().for_each(|token| state.unlock(token));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(count);
        count();
    });
    assert_eq!(register.load(2, 0), Some(3000));
}

#[test]
fn a_register_that_is_kept_has_one_lock_in_both_programs() {
    let old = state(&program(|_| {}), 2);
    // The new program has another register before it.
    let next = program(|p| {
        let first = ir::Register { name: "first".into(), ..p.registers[RegisterId(0)].clone() };
        p.registers = [first, p.registers[RegisterId(0)].clone()].into_iter().collect();
    });
    let options = StateOptions { workers: 2, ..StateOptions::default() };
    let (new, kept) = old.prepare(&next, options).unwrap();
    assert_eq!(kept.registers, [RegisterId(1)]);
    let token = old.lock(RegisterId(0), 2).unwrap();
    old.unlock(token);
    assert_eq!(new.lock(RegisterId(1), 2), Some(token));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| old.lock(RegisterId(0), 2));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiting.is_finished(), "the other program has the lock");
        new.unlock(token);
        assert_eq!(waiting.join().unwrap(), Some(token));
    });
}

#[test]
fn a_state_that_is_prepared_and_dropped_changes_nothing() {
    let old = state(&program(|_| {}), 1);
    let (prepared, kept) = old.prepare(&program(|_| {}), StateOptions::default()).unwrap();
    let all = (kept.registers.len(), kept.counters.len(), kept.meters.len(), kept.value_sets.len());
    assert_eq!(all, (1, 1, 1, 1));
    drop(prepared);
    old.set_value_set(ValueSetId(0), &exact(&[7])).unwrap();
    let (prepared, _) = old.prepare(&program(|_| {}), StateOptions::default()).unwrap();
    // It is one set from now on, written through either state.
    old.set_value_set(ValueSetId(0), &exact(&[5])).unwrap();
    assert_eq!(prepared.value_set(ValueSetId(0)), Some(exact(&[5])));
}

#[test]
fn one_worker_locks_nothing() {
    let state = state(&program(|_| {}), 1);
    assert_eq!(state.lock(RegisterId(0), 0), None);
}
