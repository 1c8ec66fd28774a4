//! The whole suite once more, on a PostgreSQL of its own: a private cluster in a folder, on a socket in that folder.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::place::DATABASE_URL;

const MISSING: &str = "PostgreSQL's programs are not on this machine: install Debian's package `postgresql`";

/// A cluster; stopped when dropped.
struct Cluster {
    bin: PathBuf,
    dir: tempfile::TempDir,
    as_postgres: bool,
}

impl Cluster {
    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("pk-pg-").tempdir_in("/tmp").unwrap();
        // It refuses to run as root.
        let root = output(Command::new("id").arg("-u")).trim() == "0";
        if root {
            assert!(Command::new("chown").arg("postgres").arg(dir.path()).status().unwrap().success(), "{MISSING}");
        }
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let cluster = Self { bin: programs(), dir, as_postgres: root };
        cluster.run("initdb", &["-D", &cluster.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]);
        // What is tested is not the disk: a cluster that is thrown away needs no fsync.
        let options = format!("-k {} -c listen_addresses= -c fsync=off", cluster.path());
        let log = format!("{}/log", cluster.path());
        cluster.run("pg_ctl", &["-D", &cluster.data(), "-l", &log, "-o", &options, "-w", "start"]);
        cluster
    }

    fn path(&self) -> String {
        self.dir.path().display().to_string()
    }

    fn data(&self) -> String {
        format!("{}/data", self.path())
    }

    fn url(&self) -> String {
        format!("postgresql://postgres@{}/postgres", self.path().replace('/', "%2F"))
    }

    fn run(&self, program: &str, args: &[&str]) {
        let program = self.bin.join(program);
        let mut command = if self.as_postgres {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(&program);
            command
        } else {
            Command::new(&program)
        };
        let command = command.args(args).current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().unwrap().success(), "{} {args:?}", program.display());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
    }
}

/// Debian keeps them beside each other by version, and not on the path.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = versions.map(|v| v.path().join("bin")).filter(|bin| bin.join("initdb").exists()).collect();
    found.sort();
    let path = std::env::var("PATH").unwrap_or_default();
    let on_path = path.split(':').map(|dir| Path::new(dir).to_owned()).find(|dir| dir.join("initdb").exists());
    found.pop().or(on_path).expect(MISSING)
}

fn output(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Runs the suite on a cluster of its own, whose database has these defaults.
fn suite(defaults: &[&str]) {
    if std::env::var_os(DATABASE_URL).is_some() {
        // This is that suite.
        return;
    }
    let cluster = Cluster::start();
    let url = cluster.url();
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    for default in defaults {
        client.batch_execute(&format!("ALTER DATABASE postgres SET {default}")).unwrap();
    }
    let mut suite = Command::new(std::env::current_exe().unwrap())
        .env(DATABASE_URL, url)
        .env("RUST_BACKTRACE", "0")
        .args(["--test-threads", "4", "--skip", "decisions::"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Said on as it comes: where a test hangs, its name is among what was printed.
    let mut said = String::new();
    for line in BufReader::new(suite.stdout.take().unwrap()).lines().map(Result::unwrap) {
        println!("{line}");
        said.extend([line.as_str(), "\n"]);
    }
    assert!(suite.wait().unwrap().success(), "{said}");
    assert!(said.contains("test arrows::arrow_claimed_to_done ... ok"), "the tests were run: {said}");
}

#[test]
fn s11_the_same_suite_on_postgresql() {
    suite(&[]);
}

#[test]
fn s11_d15_the_same_suite_where_the_database_has_other_defaults() {
    suite(&[
        "default_transaction_isolation = 'repeatable read'",
        "synchronous_commit = off",
        "statement_timeout = '3s'",
        "lock_timeout = '1s'",
    ]);
}
