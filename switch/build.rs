//! Makes Rust of the P4Runtime and gNMI messages (`proto/`), without an installed protoc.

use std::path::PathBuf;

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(
        [
            "p4/v1/p4runtime.proto",
            "wireyard/v1/device.proto",
            "wireyard/v1/state.proto",
            "gnmi/gnmi.proto",
        ],
        ["proto"],
    )?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // For the text form of P4Info, which needs the names of fields at run time.
    std::fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        .btree_map(".")
        .include_file("p4runtime.rs")
        .compile_fds(files)?;
    Ok(())
}
