//! The `lockkeeper-shop` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockkeeper_shop::serve::main()
}
