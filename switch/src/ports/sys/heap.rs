//! Requests about the memory of the process: a switch that runs for long returns freed memory to the operating system,
//! a large laboratory has its memory in large pages.
//!
//! Not an allocator: `mallopt(3)` of glibc, set once at the start, and `madvise(2)`. By default glibc raises the size from which an
//! allocation is a separate mapping to that of the largest one that was freed. Tables of a replaced program are
//! megabytes, so those of the next would come from heaps, of which each thread may have one, and leave them fragmented.

/// Minimum size in bytes of an allocation with a separate mapping, which is returned to the operating system when it is
/// freed.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 1 << 20;
/// Maximum number of heaps; threads share them. Packets allocate nothing.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: libc::c_int = 2;

/// A large page of x86-64.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Makes the allocator return freed memory to the operating system, if it is glibc's.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) takes two integers; it is called before the first thread is started, as mallopt(3) requires.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
    }
}

/// Asks the operating system to keep the memory that the process has now in large pages: a laboratory of hundreds of
/// devices accesses more pages than the processor has translations for. Memory behind it stays the same; a system
/// without large pages changes nothing.
pub fn use_large_pages() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for (first, bytes) in maps.lines().filter_map(large_mapping) {
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_COLLAPSE] {
            // SAFETY: neither advice changes or frees a byte, whatever is mapped there by now.
            unsafe { libc::madvise(std::ptr::without_provenance_mut(first), bytes, advice) };
        }
    }
}

/// Address and size of a mapping in `/proc/self/maps` (proc_pid_maps(5)) that can have large pages: memory of the heap,
/// or without a file and a name.
fn large_mapping(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (first, end) = words.next()?.split_once('-')?;
    let is_writable = words.next()? == "rw-p";
    let is_memory = matches!(words.nth(3), None | Some("[heap]"));
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (first, end) = (address(first)?, address(end)?);
    let bytes = end.checked_sub(first)?;
    (is_writable && is_memory && bytes >= LARGE_PAGE_BYTES).then_some((first, bytes))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn mappings_of_memory_can_have_large_pages() {
        let size = |line| large_mapping(line).map(|(_, bytes)| bytes);
        let heap = "55d0c7a00000-55d0c8200000 rw-p 00000000 00:00 0          [heap]";
        assert_eq!(large_mapping(heap), Some((0x55d0_c7a0_0000, 8 << 20)));
        assert_eq!(size("7f21f8000000-7f21fc000000 rw-p 00000000 00:00 0 "), Some(64 << 20));
        for other in [
            "7f21f8000000-7f21f8021000 rw-p 00000000 00:00 0 ",
            "7f21f8000000-7f21fc000000 r-xp 00000000 00:00 0 ",
            "7f21f8000000-7f21fc000000 rw-p 00000000 fe:00 77  /usr/lib/libc.so.6",
            "7ffd00000000-7ffd00400000 rw-p 00000000 00:00 0          [stack]",
            "no mapping",
        ] {
            assert_eq!(size(other), None, "{other}");
        }
    }

    #[test]
    fn memory_may_be_in_large_pages_and_is_the_same() {
        let bytes: Vec<u8> = (0..16 << 20).map(|n| (n % 251) as u8).collect();
        use_large_pages();
        assert!(bytes.iter().enumerate().all(|(n, byte)| *byte == (n % 251) as u8));
        if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return crate::skip::skip("large pages", "this kernel has none");
        }
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut is_ours, mut flags) = (false, None);
        for line in maps.lines() {
            let is_attribute = line.split(' ').next().is_some_and(|word| word.ends_with(':'));
            if !is_attribute {
                let holds = |(first, size)| (first..first + size).contains(&bytes.as_ptr().addr());
                is_ours = large_mapping(line).is_some_and(holds);
            }
            flags = line.strip_prefix("VmFlags:").filter(|_| is_ours).or(flags);
        }
        assert!(flags.is_some_and(|flags| flags.contains(" hg")), "{flags:?}");
    }
}
