//! `cargo xtask`: everything a person types. Each command makes sure of what it needs, says in one line what it
//! installs, and is quick when nothing is missing.

mod agent;
mod build;
mod ci;
mod demo;
mod doctor;
mod lint;
mod size;
mod test;
mod tools;
mod util;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Builds, tests and shows Patchkeep")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show it: build everything, start the reference server, print one URL
    Demo {
        /// Play the story by script in headless Chromium, save target/demo.png, fail if any text is wrong
        #[arg(long)]
        check: bool,
        /// The port on 127.0.0.1; a free one if it is taken
        #[arg(long, default_value_t = 8490, conflicts_with = "check")]
        port: u16,
    },
    /// Run everything that tests the project, or some parts of it
    Test {
        /// What to run; everything if nothing is named
        parts: Vec<test::Part>,
    },
    /// Build the WebAssembly module, the npm package and the page
    Build,
    /// Measure latencies, rates and sizes in headless Chromium
    Bench,
    /// Check format, lints, documentation and types
    Lint,
    /// Print the size of what a page loads; fail past the budget
    Size,
    /// Call the command line client against the demo server: `agent -- patch DOC …`
    Agent {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Start the reference server with the page, without explaining it
    Serve {
        /// The port on 127.0.0.1; a free one if it is taken
        #[arg(long, default_value_t = 8490)]
        port: u16,
    },
    /// Show what is needed, what is here, and what would be installed
    Doctor,
    /// Run a file of cases: `vectors digest|answers|scenarios FILE`
    Vectors {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Play the whole protocol under faults, one seed one run: `simulate --seeds 0..1000`
    Simulate {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Kill a page at random steps, with the real server: `crashes 1000` (points, then a seed)
    Crashes {
        /// Passed on as they are
        #[arg(trailing_var_arg = true)]
        args: Vec<OsString>,
    },
    /// Check a journal that `session.exportJournal()` gave: `journal verify FILE`
    Journal {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Everything that has to hold: lint, size, demo --check, test
    Ci,
}

fn main() -> ExitCode {
    run(Cli::parse().command).unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Demo { check: true, .. } => demo::check_by_script()?,
        Command::Demo { port, .. } => demo::serve(port, true)?,
        Command::Test { parts } => test::run(&parts)?,
        Command::Build => build::all()?,
        Command::Bench => ci::bench()?,
        Command::Lint => lint::run()?,
        Command::Size => size::run()?,
        Command::Agent { args } => return agent::agent(&args),
        Command::Serve { port } => demo::serve(port, false)?,
        Command::Doctor => doctor::run(),
        Command::Vectors { args } => return agent::vectors(&args),
        Command::Simulate { args } => return agent::simulate(&args),
        Command::Crashes { args } => ci::crashes(&args)?,
        Command::Journal { args } => return agent::journal(&args),
        Command::Ci => ci::run()?,
    }
    Ok(ExitCode::SUCCESS)
}
