//! `cargo bench`: measures Lockkeeper against its marks and prints the table.

fn main() -> anyhow::Result<()> {
    lockkeeper_bench::main(env!("CARGO_BIN_EXE_peer"))
}
