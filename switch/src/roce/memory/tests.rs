use super::*;

#[test]
fn a_key_of_a_removed_region_is_dead_even_when_its_slot_lives_again() {
    let mut memory = MemoryTable::new();
    let key = memory.register(0x1000, Access::ALL, Box::new(Bytes::zeroed(16))).unwrap();
    assert!(memory.remove(key).is_some());
    let again = memory.register(0x1000, Access::ALL, Box::new(Bytes::zeroed(16))).unwrap();
    assert_ne!(key, again);
    assert_eq!(memory.check(key, 0x1000, 1, Access::NONE), Err(AccessError::UnknownKey));
    assert_eq!(memory.check(again, 0x1000, 16, Access::REMOTE_WRITE), Ok(()));
    assert!(memory.remove(key).is_none());
}

#[test]
fn slots_of_removed_regions_are_used_again() {
    let mut memory = MemoryTable::new();
    let add = |memory: &mut MemoryTable| {
        memory.register(0, Access::ALL, Box::new(Bytes::zeroed(8))).unwrap() >> 8
    };
    assert_eq!([add(&mut memory), add(&mut memory), add(&mut memory)], [0, 1, 2]);
    assert!(memory.remove(1 << 8 | 1).is_some());
    assert!(memory.remove(1 << 8 | 1).is_none(), "already removed");
    assert_eq!([add(&mut memory), add(&mut memory)], [1, 3]);
}

#[test]
fn a_peer_has_access_to_a_region_with_any_remote_right() {
    let mut memory = MemoryTable::new();
    let mut add = |access| memory.register(0, access, Box::new(Bytes::zeroed(8))).unwrap();
    let (own, shared) = (add(Access::LOCAL_WRITE), add(Access::REMOTE_ATOMIC));
    assert_eq!(memory.check_remote(own), Err(AccessError::Denied));
    assert_eq!(memory.check_remote(shared), Ok(()));
    assert_eq!(memory.check_remote(shared + 1), Err(AccessError::UnknownKey));
}

#[test]
fn bounds_and_permissions() {
    let mut memory = MemoryTable::new();
    let rights = Access::REMOTE_READ.with(Access::LOCAL_WRITE);
    let key = memory.register(u64::MAX - 16, rights, Box::new(Bytes::zeroed(16))).unwrap();
    let base = u64::MAX - 16;
    assert_eq!(memory.check(key, base, 16, Access::REMOTE_READ), Ok(()));
    assert_eq!(memory.check(key, base, 17, Access::REMOTE_READ), Err(AccessError::OutOfBounds));
    assert_eq!(memory.check(key, base - 1, 1, Access::NONE), Err(AccessError::OutOfBounds));
    assert_eq!(memory.check(key, u64::MAX, 9, Access::NONE), Err(AccessError::OutOfBounds));
    assert_eq!(memory.check(key, base, 1, Access::REMOTE_WRITE), Err(AccessError::Denied));
    assert_eq!(memory.check(77, 0, 0, Access::ALL), Ok(()), "nothing to protect");
    assert_eq!(memory.atomic(key, base, |_| 1), Err(AccessError::Denied));
    assert_eq!(memory.register(u64::MAX, Access::ALL, Box::new(Bytes::zeroed(2))), None);
}

#[test]
fn atomics_are_little_endian_words() {
    let mut memory = MemoryTable::new();
    let key =
        memory.register(0, Access::ALL, Box::new(Bytes(vec![1, 0, 0, 0, 0, 0, 0, 2]))).unwrap();
    assert_eq!(memory.atomic(key, 0, |w| w.wrapping_add(5)), Ok(0x0200_0000_0000_0001));
    let mut out = [0; 8];
    memory.read(&PayloadRef { key, va: 0, len: 8 }, &mut out).unwrap();
    assert_eq!(out, [6, 0, 0, 0, 0, 0, 0, 2]);
}

#[test]
fn synthetic_memory_verifies_beyond_four_gib_and_counts_what_is_wrong() {
    let len = 6 << 30;
    let (source, mut target) = (Synthetic::new(7, len), Synthetic::new(7, len));
    let mut chunk = [0; 1000];
    for offset in [0, 3, (1 << 32) - 500, len - 1000] {
        source.read(offset, &mut chunk);
        target.write(offset, &chunk);
    }
    assert_eq!((target.verified_bytes(), target.wrong_bytes()), (4000, 0));
    (chunk[17], chunk[900]) = (!chunk[17], !chunk[900]);
    target.write(len - 1000, &chunk);
    assert_eq!((target.verified_bytes(), target.wrong_bytes()), (4998, 2));
    target.write(0, &chunk);
    assert_eq!(target.first_wrong_offset(), Some(len - 1000 + 17), "the first, not the last");
}

#[test]
fn a_byte_of_synthetic_memory_does_not_depend_on_how_it_is_asked_for() {
    let source = Synthetic::new(7, 1 << 20);
    let mut whole = vec![0; 20_000];
    source.read(3000, &mut whole);
    for (n, byte) in whole.iter().enumerate() {
        let mut one = [0];
        source.read(3000 + n as u64, &mut one);
        assert_eq!(one, [*byte], "{n}");
    }
    let mut target = Synthetic::new(7, 1 << 20);
    whole.iter_mut().step_by(4096).for_each(|byte| *byte = !*byte);
    target.write(3000, &whole);
    assert_eq!((target.verified_bytes(), target.wrong_bytes()), (19_995, 5), "one in each page");
    assert_eq!(target.first_wrong_offset(), Some(3000));
}

#[test]
fn bytes_of_another_place_or_region_are_wrong() {
    let source = Synthetic::new(7, 1 << 40);
    let mut chunk = [0; 1024];
    for from in (1..1000).flat_map(|n| [n, n << 10, n << 12, n << 30]) {
        let mut target = Synthetic::new(7, 1 << 40);
        source.read(from, &mut chunk);
        target.write(0, &chunk);
        assert!(target.wrong_bytes() > 980, "from {from}");
    }
    for seed in 8..1000 {
        let mut target = Synthetic::new(seed, 1 << 40);
        source.read(0, &mut chunk);
        target.write(0, &chunk);
        assert!(target.wrong_bytes() > 980, "of seed {seed}");
    }
}
