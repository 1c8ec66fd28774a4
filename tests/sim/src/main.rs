//! `patchkeep-sim --seed N [--trace]`, `--seeds A..B`, `--seconds S`; `--profile NAME` fixes what goes wrong;
//! `--mutants` runs the deliberate bugs over the seeds, `--mutant NAME` one of them.

use std::process::ExitCode;
use std::time::Instant;

use patchkeep_sim::mutants::Mutant;
use patchkeep_sim::profile::PROFILES;
use patchkeep_sim::{Report, Sim};

/// How many of the last steps a failure shows.
const SHOWN: usize = 60;

struct Args {
    seeds: std::ops::Range<u64>,
    seconds: Option<u64>,
    profile: Option<String>,
    trace: bool,
    mutants: bool,
    mutant: Option<String>,
}

fn args() -> Result<Args, String> {
    let mut args = Args { seeds: 0..1000, seconds: None, profile: None, trace: false, mutants: false, mutant: None };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut value = || given.next().ok_or(format!("{name} needs a value"));
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match name.as_str() {
            "--trace" => args.trace = true,
            "--mutants" => args.mutants = true,
            "--mutant" => (args.mutants, args.mutant) = (true, Some(value()?)),
            "--profile" => args.profile = Some(value()?),
            "--seconds" => args.seconds = Some(number(&value()?)?),
            "--seed" => {
                let seed = number(&value()?)?;
                args.seeds = seed..seed + 1;
            }
            "--seeds" => {
                let value = value()?;
                let (from, to) = value.split_once("..").ok_or("--seeds A..B")?;
                args.seeds = number(from)?..number(to)?;
            }
            _ => return Err(format!("unknown argument {name}")),
        }
    }
    if args.seconds.is_some() {
        args.seeds.end = u64::MAX;
    }
    match &args.profile {
        Some(name) if !PROFILES.iter().any(|p| p.name == name) => {
            let names: Vec<_> = PROFILES.iter().map(|p| p.name).collect();
            Err(format!("profiles: {}", names.join(", ")))
        }
        _ => Ok(args),
    }
}

/// Runs every deliberate bug until a seed kills it, and says after how many.
fn mutants(args: &Args) -> ExitCode {
    let mut alive = 0;
    let wanted = |m: &&(Mutant, &str)| args.mutant.as_ref().is_none_or(|name| *name == format!("{:?}", m.0));
    let chosen: Vec<_> = Mutant::ALL.iter().filter(wanted).collect();
    for &&(mutant, what) in &chosen {
        let run = |seed: &u64| Sim::run_mutant(*seed, args.profile.as_deref(), false, Some(mutant)).violation;
        // A seed that fails without the bug says nothing about it.
        let sound = |seed: u64| Sim::run(seed, args.profile.as_deref(), false).violation.is_none();
        let mut killed = args.seeds.clone().filter_map(|seed| Some((seed, run(&seed)?)));
        let killed = killed.find(|(seed, _)| sound(*seed));
        match killed {
            Some((seed, how)) => {
                println!("killed after {:>5} seeds: {mutant:?} ({}): {how}", seed - args.seeds.start + 1, what.trim())
            }
            None => {
                alive += 1;
                println!("ALIVE: {mutant:?} ({})", what.trim());
            }
        }
    }
    println!("{} of {} killed", chosen.len() - alive, chosen.len());
    if alive == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn main() -> ExitCode {
    let args = match args() {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if args.mutants {
        return mutants(&args);
    }
    let began = Instant::now();
    let (mut seeds, mut steps, mut ended) = (0u64, 0u64, [0u64; 5]);
    let mut failed: Vec<Report> = Vec::new();
    for seed in args.seeds.clone() {
        if args.seconds.is_some_and(|s| began.elapsed().as_secs() >= s) {
            break;
        }
        let report = Sim::run(seed, args.profile.as_deref(), false);
        seeds += 1;
        steps += report.steps;
        ended.iter_mut().zip(report.ended).for_each(|(sum, n)| *sum += n);
        if let Some(violation) = &report.violation {
            println!("seed {seed} ({}) after {} steps: {violation}", report.profile, report.steps);
            failed.push(report);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let [done, refused, lost, unknown, applied] = ended;
    println!("{seeds} seeds, {steps} steps, {:.0} steps/s, {} failed", steps as f64 / seconds, failed.len());
    println!("keys: {done} done, {refused} refused, {lost} lost, {unknown} unknown, {applied} applied");
    let shown = failed.iter().min_by_key(|r| r.steps).map(|r| r.seed).or(args.trace.then_some(args.seeds.start));
    if let Some(seed) = shown {
        let report = Sim::run(seed, args.profile.as_deref(), true);
        let skipped = if args.trace { 0 } else { report.trace.len().saturating_sub(SHOWN) };
        println!("--- seed {seed}, the last steps:");
        report.trace.iter().skip(skipped).for_each(|line| println!("{line}"));
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
