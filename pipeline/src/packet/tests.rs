use std::collections::HashSet;
use std::sync::mpsc;
use std::thread;

use super::*;

fn memory(chunks: u32) -> PacketMemory {
    PacketMemory::new(MemoryConfig { chunks, chunk_bytes: 2048, headroom_bytes: 256 }).unwrap()
}

#[test]
fn every_chunk_is_given_once_and_exhaustion_is_none() {
    for chunks in [1, 2, 7, 64, 1000] {
        let mut mem = memory(chunks);
        for _ in 0..3 {
            let bufs: Vec<Buf> = std::iter::from_fn(|| mem.alloc()).collect();
            let distinct: HashSet<u32> = bufs.iter().map(Buf::index).collect();
            assert_eq!((bufs.len(), distinct.len()), (chunks as usize, chunks as usize));
            assert_eq!(mem.free_chunks(), 0);
            bufs.into_iter().for_each(|b| mem.free(b));
            assert_eq!(mem.free_chunks(), chunks);
        }
    }
}

#[test]
fn chunks_are_aligned_and_do_not_overlap() {
    let mut mem = memory(8);
    let layout = mem.region_layout();
    assert_eq!(layout.base as usize % REGION_ALIGN_BYTES, 0);
    assert_eq!((layout.bytes, layout.chunk_shift), (8 * 2048, 11));
    let mut bufs: Vec<Buf> = std::iter::from_fn(|| mem.alloc()).collect();
    for (i, buf) in bufs.iter_mut().enumerate() {
        mem.bytes_mut(buf).unwrap().fill(i as u8);
    }
    for (i, buf) in bufs.iter().enumerate() {
        assert!(mem.bytes(buf).iter().all(|b| *b == i as u8));
        assert_eq!(
            mem.bytes(buf).as_ptr() as usize,
            layout.base as usize + ((buf.index() as usize) << 11)
        );
    }
}

/// With guards, chunks are at the addresses of their handles, aligned to their size, and can be written from end to
/// end.
#[test]
fn guarded_chunks_are_chunks() {
    for chunk_bytes in [512, 1024, 2048, 4096, 16384] {
        let config = MemoryConfig { chunks: 20, chunk_bytes, headroom_bytes: 64 };
        for _ in 0..2 {
            let mut mem = PacketMemory::guarded(config).unwrap();
            let layout = mem.region_layout();
            assert!(!layout.is_contiguous);
            assert!((layout.base as usize).is_multiple_of(chunk_bytes as usize));
            let mut bufs: Vec<Buf> = std::iter::from_fn(|| mem.alloc()).collect();
            assert_eq!(bufs.len(), 20);
            for (i, buf) in bufs.iter_mut().enumerate() {
                let bytes = mem.bytes_mut(buf).unwrap();
                assert_eq!(bytes.len(), chunk_bytes as usize);
                bytes.fill(i as u8);
            }
            for (i, buf) in bufs.into_iter().enumerate() {
                assert!(mem.bytes(&buf).iter().all(|b| *b == i as u8));
                let at = layout.base as usize + ((buf.index() as usize) << layout.chunk_shift);
                assert_eq!(mem.bytes(&buf).as_ptr() as usize, at);
                mem.free(buf);
            }
            mem.check_guards();
            assert_eq!(mem.free_chunks(), 20);
        }
    }
}

/// Bytes before a short chunk are checked; those before a long one, and after both, cannot be written.
#[test]
#[cfg_attr(miri, ignore = "writes outside of a chunk, for which there are no pages to protect")]
fn a_write_outside_of_a_guarded_chunk_is_found() {
    let write = |chunk_bytes: u32, at: isize| {
        let config = MemoryConfig { chunks: 4, chunk_bytes, headroom_bytes: 64 };
        let mut mem = PacketMemory::guarded(config).unwrap();
        let buf = mem.alloc().unwrap();
        // SAFETY: the bytes belong to the memory; the layout is the subject of the test.
        unsafe { mem.bytes(&buf).as_ptr().cast_mut().offset(at).write(1) };
        mem.free(buf);
        mem.check_guards();
    };
    let found = std::panic::catch_unwind(|| write(1024, -1));
    assert!(found.is_err());
    write(1024, 0);
    write(1024, 1023);
    // Faults: in a process of their own, which this test starts.
    let name = "a_write_outside_of_a_guarded_chunk_is_found";
    if let Ok(case) = std::env::var("WIREYARD_GUARD") {
        let (chunk_bytes, at) = case.split_once(' ').unwrap();
        write(chunk_bytes.parse().unwrap(), at.parse().unwrap());
        return;
    }
    for case in ["1024 1024", "4096 -1", "4096 4096", "16384 -256", "16384 16384"] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([name, "--nocapture"]).env("WIREYARD_GUARD", case);
        let status = child.output().unwrap().status;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(signal, Some(11), "{case}: {status}");
    }
}

#[test]
fn the_first_writer_copies() {
    let mut mem = memory(4);
    let mut original = mem.alloc_frame(b"hello").unwrap();
    let mut copy = mem.share(&original).unwrap();
    assert_eq!(mem.free_chunks(), 3);
    assert!(mem.bytes_mut(&mut original).is_none());
    assert!(mem.frame_mut(&mut copy, 256, 5).is_none());
    mem.make_unique(&mut copy, 256..261).unwrap();
    mem.frame_mut(&mut copy, 256, 5).unwrap()[0] = b'j';
    assert_eq!(mem.frame(&copy, 256, 5), b"jello");
    assert_eq!(mem.frame(&original, 256, 5), b"hello");
    assert!(mem.is_unique(&original));
    mem.free(original);
    mem.free(copy);
    assert_eq!(mem.free_chunks(), 4);
}

#[test]
fn a_copy_without_memory_is_refused_and_changes_nothing() {
    let mut mem = memory(1);
    let a = mem.alloc_frame(b"x").unwrap();
    let mut b = mem.share(&a).unwrap();
    assert_eq!(mem.make_unique(&mut b, 0..2048), Err(NoMemory));
    assert_eq!((mem.frame(&a, 256, 1), mem.frame(&b, 256, 1)), (&b"x"[..], &b"x"[..]));
    mem.free(a);
    assert_eq!(mem.make_unique(&mut b, 0..2048), Ok(()));
    mem.free(b);
}

#[test]
fn a_handle_of_another_memory_is_an_empty_chunk() {
    let (mut mine, mut other) = (memory(4), memory(4));
    let mut theirs = other.alloc().unwrap();
    assert_eq!(mine.bytes(&theirs), b"");
    assert_eq!(mine.frame(&theirs, 256, 10), b"");
    assert!(mine.bytes_mut(&mut theirs).is_none() && mine.share(&theirs).is_none());
    mine.free(theirs);
    assert_eq!((mine.foreign_handles(), mine.free_chunks()), (1, 4));
}

#[test]
fn the_tag_of_a_leaked_handle_is_never_given_again() {
    let mut dead = memory(2);
    let leaked = dead.alloc().unwrap();
    drop(dead);
    for _ in 0..100 {
        let mem = memory(2);
        assert_eq!(mem.bytes(&leaked), b"");
    }
}

#[test]
fn frames_outside_the_chunk_are_clipped_or_refused() {
    let mut mem = memory(2);
    assert_eq!(mem.max_frame_bytes(), 1792);
    assert!(mem.alloc_frame(&[0; 1793]).is_none());
    let mut buf = mem.alloc_frame(&[7; 1792]).unwrap();
    assert_eq!(mem.frame(&buf, 256, 1792).len(), 1792);
    assert_eq!(mem.frame(&buf, 2000, 100).len(), 48);
    assert_eq!(mem.frame(&buf, u16::MAX, 1).len(), 0);
    assert!(mem.frame_mut(&mut buf, 2000, 49).is_none());
    assert!(mem.frame_mut(&mut buf, 1, u32::MAX).is_none());
}

#[test]
fn bad_shapes_are_refused() {
    let make = |chunks, chunk_bytes, headroom_bytes| {
        PacketMemory::new(MemoryConfig { chunks, chunk_bytes, headroom_bytes }).unwrap_err()
    };
    assert_eq!(make(1, 1500, 0), MemoryError::ChunkBytes(1500));
    assert_eq!(make(1, 8 << 20, 0), MemoryError::ChunkBytes(8 << 20));
    assert_eq!(make(0, 2048, 0), MemoryError::Chunks(0));
    assert_eq!(make((1 << 20) + 1, 2048, 0), MemoryError::Chunks((1 << 20) + 1));
    assert_eq!(make(1, 2048, 1025), MemoryError::Headroom(1025));
    let config = MemoryConfig::for_frames(1, 262_144, 256);
    assert_eq!(config.chunk_bytes, 524_288);
    assert_eq!(MemoryConfig::for_frames(1, 9216, 256).chunk_bytes, 16384);
}

/// One worker allocates and writes, another checks and frees: chunks return, bytes are right, and none is ever held
/// twice.
#[test]
fn chunks_return_from_another_worker() {
    let rounds = if cfg!(miri) { 300 } else { 100_000u32 };
    let mut rx = memory(256);
    let mut tx = rx.worker();
    let (send, receive) = mpsc::sync_channel::<Buf>(32);
    let consumer = thread::spawn(move || {
        let mut expected = 0u32;
        for buf in receive {
            assert_eq!(tx.frame(&buf, 256, 4), expected.to_be_bytes());
            expected += 1;
            tx.free(buf);
        }
        expected
    });
    for i in 0..rounds {
        let mut buf = loop {
            match rx.alloc() {
                Some(buf) => break buf,
                None => thread::yield_now(),
            }
        };
        rx.frame_mut(&mut buf, 256, 4).unwrap().copy_from_slice(&i.to_be_bytes());
        send.send(buf).unwrap();
    }
    drop(send);
    assert_eq!(consumer.join().unwrap(), rounds);
    assert_eq!(rx.free_chunks(), 256);
    assert_eq!(std::iter::from_fn(|| rx.alloc()).count(), 256);
}

#[test]
fn shares_freed_by_several_workers_free_the_chunk_once() {
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    let mut mem = memory(64);
    for _ in 0..rounds {
        let buf = mem.alloc().unwrap();
        let mut shares: Vec<Buf> = (0..2).filter_map(|_| mem.share(&buf)).collect();
        thread::scope(|scope| {
            for share in shares.drain(..) {
                let mut worker = mem.worker();
                scope.spawn(move || worker.free(share));
            }
        });
        assert!(mem.is_unique(&buf));
        mem.free(buf);
    }
    assert_eq!(std::iter::from_fn(|| mem.alloc()).count(), 64);
}

#[test]
fn promises_leave_others_their_share() {
    let mem = memory(1000);
    mem.divide(200, 150);
    assert_eq!((mem.kept(), mem.default_share()), (200, 150));
    let held: Vec<Promise> = (0..3).map(|_| mem.promise(64, 200).unwrap()).collect();
    assert!(held.iter().all(|promise| promise.chunks() == 200));
    let small = mem.promise(64, 128).unwrap();
    assert_eq!(small.chunks(), 128);
    // 72 are left: one more has its least, and the next is refused with the numbers.
    let last = mem.promise(64, 512).unwrap();
    assert_eq!(last.chunks(), 72);
    assert_eq!(mem.worker().promise(1, 512).unwrap_err(), NotPromised { left: 0, all: 1000 });
    drop(small);
    assert_eq!(mem.promise(129, 512).unwrap_err(), NotPromised { left: 128, all: 1000 });
    assert_eq!(mem.promise(1, 512).unwrap().chunks(), 128);
    mem.divide(5000, 0);
    assert_eq!(mem.promise(1, 512).unwrap_err().left, 0);
}

#[test]
fn what_does_not_fit_a_chunk_is_in_a_large_one() {
    let config = MemoryConfig { chunks: 13, chunk_bytes: 2048, headroom_bytes: 256 };
    let mut mem = PacketMemory::with_large(config, 3).unwrap();
    assert_eq!((mem.max_frame_bytes(), mem.free_chunks()), (16384 - 256, 16));
    let layout = mem.region_layout();
    assert_eq!((layout.bytes, layout.chunks), (13 * 2048, 16 + 3 * 8), "large ones are aligned");
    // A packet ends in front of the last byte of a small chunk: the bytes after it begin inside.
    let small = mem.alloc_frame(&[1; 1791]).unwrap();
    let mut large: Vec<Buf> = (2..5).map(|n| mem.alloc_frame(&[n; 1792]).unwrap()).collect();
    assert_eq!((mem.bytes(&small).len(), mem.end_max(&small)), (2048, 2047));
    for buf in &large {
        assert_eq!((mem.bytes(buf).len(), mem.end_max(buf)), (16384, 16384));
        assert_eq!(mem.bytes(buf).as_ptr() as usize % 16384, 0);
    }
    assert!(mem.alloc_frame(&[0; 1792]).is_none() && mem.alloc_to(16385).is_none());
    assert_eq!((mem.frame(&large[1], 256, 1792), mem.refused()), ([3; 1792].as_slice(), 1));
    // Another worker frees them; a copy has the size of its original.
    let mut other = mem.worker();
    large.drain(1..).for_each(|buf| other.free(buf));
    drop(other);
    let mut copy = mem.share(&large[0]).unwrap();
    mem.make_unique(&mut copy, 256..2048).unwrap();
    assert_eq!(mem.frame(&copy, 256, 1792), [2; 1792]);
    assert_eq!((mem.bytes(&copy).len(), mem.free_chunks()), (16384, 13));
    [small, copy].into_iter().chain(large).for_each(|buf| mem.free(buf));
    assert_eq!(mem.free_chunks(), 16);
    // A memory whose chunks are as large has none, and one with many chunks has as many as handles can address.
    let config = MemoryConfig { chunk_bytes: 16384, ..config };
    assert_eq!(PacketMemory::with_large(config, 3).unwrap().free_chunks(), 13);
}

#[test]
fn large_chunks_are_as_many_as_handles_can_name() {
    let config = MemoryConfig { chunks: (1 << 20) - 20, chunk_bytes: 2048, headroom_bytes: 256 };
    let mem = PacketMemory::with_large(config, 1000).unwrap();
    assert_eq!(mem.free_chunks(), config.chunks + 2);
}

/// Where frames leave room, packets begin at different lines of their chunks, and the longest frame still fits after
/// each of them.
#[test]
fn packets_begin_at_different_lines_where_there_is_room() {
    let config = MemoryConfig { chunks: 64, chunk_bytes: 2048, headroom_bytes: 256 };
    for (frame_bytes, lines) in [(1256, 8), (1344, 8), (1500, 4), (1729, 1), (u32::MAX, 1)] {
        let mut mem = PacketMemory::with_batch(config, 4, frame_bytes).unwrap();
        let bufs: Vec<Buf> = std::iter::from_fn(|| mem.alloc()).collect();
        let offsets: HashSet<u16> = bufs.iter().map(|buf| mem.data_off(buf)).collect();
        assert_eq!(offsets.len(), lines, "frames of {frame_bytes}");
        for (mut buf, len) in bufs.into_iter().zip(std::iter::repeat(frame_bytes.min(1792))) {
            let off = mem.data_off(&buf);
            assert_eq!((off % 64, off >= 256), (0, true));
            assert!(mem.frame_mut(&mut buf, off, len).is_some(), "{len} bytes at {off}");
            mem.prefetch(&buf, off);
            mem.prefetch_frame(&buf, off, len);
            mem.free(buf);
        }
    }
}
