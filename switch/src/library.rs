//! The header libraries of `programs/headers`, inside the binary.
//!
//! Data only: this names the files. A test compares the list with the folder.

/// Lists libraries by name with their text.
macro_rules! libraries {
    ($($name:literal,)*) => {
        /// Name and text of every embedded library.
        pub const LIBRARIES: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("../../programs/headers/", $name, ".yaml")),
        ),)*];
    };
}

libraries! {
    "arp",
    "ethernet",
    "geneve",
    "gre",
    "icmp",
    "infiniband",
    "ip",
    "ipoib",
    "l4",
    "mad",
    "mpls",
    "opa",
    "roce",
    "telemetry",
    "vxlan",
}

#[cfg(test)]
mod tests {
    use super::LIBRARIES;

    #[test]
    fn every_library_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../programs/headers");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
            .collect();
        names.sort();
        assert_eq!(names, LIBRARIES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
