//! Makes Rust of the protocol, without a protoc of the machine's.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const PROTO: &str = "proto/tidegate/store/v1/store.proto";
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(
        out.join("tidegate.store.v1.bin"),
        prost::Message::encode_to_vec(&descriptors),
    )?;
    tonic_prost_build::configure()
        .build_client(true)
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
