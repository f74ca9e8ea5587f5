use super::*;
use crate::interp::tests::build::Build;
use crate::ir;

fn program(change: impl FnOnce(&mut Program)) -> Arc<Program> {
    let mut program = Build::new().program;
    let value = ir::code::Local { name: "value".into(), bits: 12 };
    let register = ir::Register { name: "r".into(), cells: vec![value], size: 4 };
    program.registers.push(register);
    program.counters.push(ir::Counter { name: "c".into(), size: 2 });
    let kind = ir::MeterKind { two_rates: true, packets: false };
    program.meters.push(ir::Meter { name: "m".into(), kind, size: 2 });
    let (name, initial) = ("set".into(), vec![9, 3, 3]);
    program.value_sets.push(ir::ValueSet { name, bits: 8, size: 2, initial });
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
    assert_eq!(state.value_set(set), Some(vec![3, 9]));
    assert_eq!(
        state.set_value_set(set, &[1, 2, 3]),
        Err(ValueSetError::Full { found: 3, size: 2 })
    );
    let wide = ValueSetError::TooWide { value: 256, bits: 8 };
    assert_eq!(state.set_value_set(set, &[256]), Err(wide));
    assert_eq!(state.set_value_set(ValueSetId(1), &[]), Err(ValueSetError::NoSuchSet));
    assert!(state.value_set_contains(set, 9));
    state.set_value_set(set, &[255]).unwrap();
    assert!(state.value_set_contains(set, 255) && !state.value_set_contains(set, 9));
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
    old.set_value_set(ValueSetId(0), &[7]).unwrap();
    let same = program(|p| {
        p.name = "same".into();
    });
    let new = old.replace(&same, StateOptions::default()).unwrap();
    assert_eq!(new.register(RegisterId(0)).unwrap().load(1, 0), Some(0xabc));
    assert_eq!(new.counter(CounterId(0)).unwrap().read(0).unwrap().packets, 1);
    assert_eq!(new.value_set(ValueSetId(0)), Some(vec![7]));
    let other = program(|p| {
        p.registers[RegisterId(0)].size = 5;
        p.counters[CounterId(0)].name = "d".into();
        p.value_sets[ValueSetId(0)].bits = 16;
    });
    let new = old.replace(&other, StateOptions::default()).unwrap();
    assert_eq!(new.register(RegisterId(0)).unwrap().load(1, 0), Some(0));
    assert_eq!(new.counter(CounterId(0)).unwrap().read(0).unwrap().packets, 0);
    assert_eq!(new.value_set(ValueSetId(0)), Some(vec![3, 9]));
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
    // The new program has another register in front.
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
    old.set_value_set(ValueSetId(0), &[7]).unwrap();
    let (prepared, _) = old.prepare(&program(|_| {}), StateOptions::default()).unwrap();
    // It is the same set from now on, whoever changes it.
    old.set_value_set(ValueSetId(0), &[5]).unwrap();
    assert_eq!(prepared.value_set(ValueSetId(0)), Some(vec![5]));
}

#[test]
fn one_worker_locks_nothing() {
    let state = state(&program(|_| {}), 1);
    assert_eq!(state.lock(RegisterId(0), 0), None);
}
