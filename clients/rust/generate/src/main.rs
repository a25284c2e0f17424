//! Writes the library's `src/proto.rs` from jobgate's runner.proto: `cargo run` in this folder. Needs `npm ci`.
use std::{error::Error, fs, path::Path, process::Command};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = ["buf", "build", "--path", "proto/jobgate/v1/runner.proto", "-o", "-"];
    let descriptors = Command::new("npx").args(source).current_dir(library.join("../..")).output()?;
    if !descriptors.status.success() {
        return Err(String::from_utf8_lossy(&descriptors.stderr).into());
    }
    let folder = library.join("src");
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .out_dir(&folder)
        .compile_fds(prost_types::FileDescriptorSet::decode(descriptors.stdout.as_slice())?)?;
    fs::rename(folder.join("jobgate.v1.rs"), folder.join("proto.rs"))?;
    Command::new("cargo").arg("fmt").current_dir(library).status()?;
    Ok(())
}
