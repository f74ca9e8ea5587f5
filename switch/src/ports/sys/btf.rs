//! Finds a kernel function in the kernel's own type information (Documentation/bpf/btf.rst).
//!
//! A BPF program calls such a function by its type id, which differs from kernel to kernel.

const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const KIND_FUNC: u32 = 12;

/// The type id of the kernel function `name`; `None` if this kernel does not have it or does not expose its types.
pub(super) fn kernel_function(name: &str) -> Option<i32> {
    function_id(&std::fs::read(KERNEL_TYPES).ok()?, name)
}

fn function_id(btf: &[u8], name: &str) -> Option<i32> {
    let word = |at: usize| btf.get(at..)?.first_chunk().map(|raw| u32::from_ne_bytes(*raw));
    let half = btf.first_chunk().map(|raw| u16::from_ne_bytes(*raw))?;
    if half != MAGIC {
        return None;
    }
    let header = word(4)? as usize;
    let types = header.checked_add(word(8)? as usize)?;
    let types_end = types.checked_add(word(12)? as usize)?;
    let strings = btf.get(header.checked_add(word(16)? as usize)?..)?;
    let mut at = types;
    // Types are numbered from 1 in the order of the section; 0 is void.
    let mut id = 1;
    while at < types_end {
        let (name_at, info) = (word(at)? as usize, word(at + 4)?);
        let kind = info >> 24 & 0x1f;
        if kind == KIND_FUNC {
            let rest = strings.get(name_at..)?.strip_prefix(name.as_bytes());
            if rest.is_some_and(|rest| rest.first() == Some(&0)) {
                return Some(id);
            }
        }
        at += 12 + trailer_bytes(kind, (info & 0xffff) as usize)?;
        id += 1;
    }
    None
}

/// Bytes behind a type's common part; `None` for a kind that is newer than this code.
fn trailer_bytes(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // int, variable, declaration tag
        1 | 14 | 17 => 4,
        // array
        3 => 12,
        // struct, union, data section, 64-bit enumeration
        4 | 5 | 15 | 19 => 12 * members,
        // enumeration, function prototype
        6 | 13 => 8 * members,
        // pointer, forward, typedef, qualifiers, function, float, type tag
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(types: &[&[u32]], strings: &[u8]) -> Vec<u8> {
        let types: Vec<u32> = types.concat();
        let type_bytes = types.len() as u32 * 4;
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        for word in [24, 0, type_bytes, type_bytes, strings.len() as u32] {
            btf.extend(u32::to_ne_bytes(word));
        }
        types.iter().for_each(|word| btf.extend(word.to_ne_bytes()));
        btf.extend(strings);
        btf
    }

    #[test]
    fn functions_are_found_by_their_whole_name() {
        let strings = b"\0find_me_not\0find_me\0";
        let int = [0, 1 << 24, 4, 32];
        let record = [0, 4 << 24 | 2, 8, 0, 1, 0, 0, 1, 32];
        let near = [1, 12 << 24, 1];
        let right = [13, 12 << 24, 1];
        let btf = table(&[&int, &record, &near, &right], strings);
        assert_eq!(function_id(&btf, "find_me"), Some(4));
        assert_eq!(function_id(&btf, "find_me_not"), Some(3));
        assert_eq!(function_id(&btf, "find"), None);
        for cut in 0..btf.len() {
            function_id(&btf[..cut], "find_me");
        }
        assert_eq!(function_id(&table(&[&[0, 31 << 24, 0]], b"\0"), "x"), None);
    }
}
