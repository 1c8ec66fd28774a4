//! `patchkeep-agent`: writes to documents with an op key.

use std::process::ExitCode;

use clap::Parser;
use patchkeep_server::agent::{Cli, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => run(cli).await,
        Err(error) => {
            // clap's own exit code for wrong usage is 2, which means `refused` here.
            let usage = error.use_stderr();
            match error.print() {
                Ok(()) if !usage => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            }
        }
    }
}
