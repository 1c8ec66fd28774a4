//! `patchkeep-server`: the reference server as a process.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use patchkeep_server::{Config, Server, Token};
use tracing_subscriber::EnvFilter;

/// The reference server of Patchkeep.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve documents, keyed edits, saves and the tabs' socket.
    Serve(Box<Serve>),
}

#[derive(Args)]
struct Serve {
    /// The SQLite file; made where it does not exist. It is used even where a PostgreSQL URL is in the environment.
    #[arg(long, required_unless_present = "database_url")]
    db: Option<PathBuf>,
    /// The PostgreSQL database, instead of a SQLite file.
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Who may come in: TOKEN=workspace/user. May be given more than once.
    #[arg(
        long = "token",
        value_name = "TOKEN=WS/USER",
        env = "PATCHKEEP_SERVER_TOKENS",
        hide_env_values = true,
        value_delimiter = ',',
        required = true
    )]
    tokens: Vec<String>,
    /// An origin whose pages may use the API and the socket. May be given more than once.
    #[arg(long = "origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// A folder of static files to serve at `/`.
    #[arg(long, value_name = "DIR")]
    www: Option<PathBuf>,
    /// Serve /demo.json with the first token to pages on this machine, and make the demo's two documents.
    #[arg(long)]
    demo: bool,
    /// Serve the fault switches at /faults.
    #[arg(long)]
    faults: bool,
    /// How long a tab has to answer for a patch, in ms.
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    patch_timeout_ms: u64,
    /// How long a claim lives, in ms.
    #[arg(long, value_name = "MS", default_value_t = 15_000)]
    lease_ms: u64,
    /// How long settled keys are kept at least, in ms.
    #[arg(long, value_name = "MS", default_value_t = 86_400_000)]
    key_ttl_ms: u64,
    /// How often a tab pings, in ms.
    #[arg(long, value_name = "MS", default_value_t = 15_000)]
    heartbeat_ms: u64,
    /// The largest frame either side sends, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(4096..=16_777_216))]
    max_frame_bytes: u32,
    /// How many keys of one user may be open before another is claimed.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_open_keys: u64,
    /// How many sockets one user may have open.
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_sockets: usize,
}

// Not derived: the tokens must not be printed.
impl std::fmt::Debug for Serve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serve").field("db", &self.db).field("listen", &self.listen).finish_non_exhaustive()
    }
}

const WELCOME: &str = "# Welcome

This text is open in an editor, and stored on a server.
Write to it from a terminal: the colour of a word, a line at the end.
Whatever is lost on the way, each edit lands once.
";

const SECOND: &str = "# A second document

Documents do not wait for each other.
";

impl Serve {
    fn config(self) -> Result<Config, String> {
        let database_url = self.database_url.filter(|_| self.db.is_none());
        let mut config = Config::new(self.db.unwrap_or_default());
        config.database_url = database_url;
        for pair in &self.tokens {
            // The token itself may hold an equals sign; a principal cannot.
            let (token, principal) = pair.rsplit_once('=').ok_or("a token is given as TOKEN=workspace/user")?;
            let principal = principal.parse().map_err(|e| format!("{e}"))?;
            if token.is_empty() {
                return Err("an empty token lets everybody in".into());
            }
            config.tokens.push((Token::new(token), principal));
        }
        if self.demo {
            config.seed = [("notes/welcome", WELCOME), ("notes/second", SECOND)]
                .map(|(doc, text)| (doc.to_owned(), text.to_owned()))
                .into();
        }
        config.listen = self.listen;
        config.origins = self.origins;
        config.www = self.www;
        config.demo = self.demo;
        config.faults = self.faults;
        config.patch_timeout_ms = self.patch_timeout_ms;
        config.lease_ms = self.lease_ms;
        config.key_ttl_ms = self.key_ttl_ms;
        config.heartbeat_ms = self.heartbeat_ms;
        config.max_frame_bytes = usize::try_from(self.max_frame_bytes).map_err(|e| e.to_string())?;
        config.max_open_keys = self.max_open_keys;
        config.max_sockets = self.max_sockets;
        Ok(config)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { command: Command::Serve(serve) } = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(*serve).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("patchkeep-server: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn run(serve: Serve) -> Result<(), String> {
    // Before anybody is told that it runs: who reads that line may ask it to end at once.
    let asked_to_end = asked_to_end();
    let server = Server::start(serve.config()?).await.map_err(|e| e.to_string())?;
    // Whoever started this reads the line to learn the port; a closed pipe is no reason to stop.
    let _unread = writeln!(std::io::stdout(), "listening on {}", server.url());
    asked_to_end.await;
    server.stop().await;
    Ok(())
}

fn asked_to_end() -> impl Future<Output = ()> {
    use tokio::signal::unix::{Signal, SignalKind, signal};
    let heard = |kind| signal(kind).inspect_err(|error| tracing::warn!(%error, "a signal cannot be heard")).ok();
    async fn next(heard: Option<Signal>) {
        match heard {
            Some(mut heard) => drop(heard.recv().await),
            None => std::future::pending().await,
        }
    }
    let (interrupt, terminate) = (heard(SignalKind::interrupt()), heard(SignalKind::terminate()));
    async {
        tokio::select! {
            () = next(interrupt) => {}
            () = next(terminate) => {}
        }
    }
}
