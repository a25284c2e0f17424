use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut config = tonic_prost_build::Config::new();
    config.protoc_executable(protoc_bin_vendored::protoc_bin_path()?);
    tonic_prost_build::configure()
        .build_server(false)
        .compile_with_config(config, &["../../proto/jobgate/v1/runner.proto"], &["../../proto"])?;
    Ok(())
}
