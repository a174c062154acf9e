//! The `lockkeeper` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockkeeper_cli::main()
}
