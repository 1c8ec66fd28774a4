//! The three engines, and how a case is run on each.
//!
//! A case is an async function without arguments. [`on_each_engine!`](crate::on_each_engine) makes one test of it per
//! engine; which one it runs on is known to whatever starts a browser within it. What came of it is its cell in the
//! matrix that is printed at the end of a run.

use std::env;
use std::path::{Path, PathBuf};

/// A browser engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Chromium under chromedriver.
    Chromium,
    /// Firefox under geckodriver.
    Firefox,
    /// WebKitGTK's MiniBrowser under WebKitWebDriver, on a screen in memory.
    WebKit,
}

/// What came of a case on one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// It held.
    Passed,
    /// The engine has no such thing, or cannot be driven to it: how that was seen, in this very run.
    Lacks(String),
}

impl From<()> for Cell {
    fn from((): ()) -> Self {
        Self::Passed
    }
}

tokio::task_local! {
    static CURRENT: Engine;
}

impl Engine {
    /// The engine of the running test: Chromium where nothing else is said.
    pub fn current() -> Self {
        CURRENT.try_with(|engine| *engine).unwrap_or(Self::Chromium)
    }

    /// Its name in the matrix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
            Self::WebKit => "webkit",
        }
    }

    /// The programs it needs, if all of them are here: the driver first, then the browser, then the screen.
    pub fn programs(self) -> Option<Vec<PathBuf>> {
        let wanted: &[Program] = match self {
            Self::Chromium => &CHROMIUM,
            Self::Firefox => &FIREFOX,
            Self::WebKit => &WEBKIT,
        };
        wanted.iter().map(Program::place).collect()
    }

    /// Runs a case on this engine and notes what came of it. Without the engine nothing is run, and that is noted.
    ///
    /// # Panics
    /// Where the case does.
    pub async fn run<T: Into<Cell>>(self, module: &str, case: impl AsyncFnOnce() -> T) {
        let name = module.rsplit("::").next().unwrap_or(module);
        if self.programs().is_none() {
            println!("{name}: there is no {} on this machine", self.name());
            return note(name, self, "absent");
        }
        note(name, self, "running");
        match CURRENT.scope(self, case()).await.into() {
            Cell::Passed => note(name, self, "passed"),
            Cell::Lacks(evidence) => {
                println!("{name}: {} lacks it: {evidence}", self.name());
                note(name, self, &format!("lacks {evidence}"));
            }
        }
    }
}

/// Only a run that prints a matrix names a folder for its cells.
fn note(case: &str, engine: Engine, said: &str) {
    if let Some(folder) = env::var_os("PATCHKEEP_MATRIX") {
        let file = Path::new(&folder).join(format!("{case}.{}", engine.name()));
        std::fs::write(file, said).expect("the folder of cells can be written to");
    }
}

/// Makes one test per engine of each of these async functions.
#[macro_export]
macro_rules! on_each_engine {
    ($($case:ident),+ $(,)?) => {$(
        mod $case {
            use $crate::engine::Engine;

            #[tokio::test]
            async fn chromium() {
                Engine::Chromium.run(module_path!(), super::$case).await;
            }

            #[tokio::test]
            async fn firefox() {
                Engine::Firefox.run(module_path!(), super::$case).await;
            }

            #[tokio::test]
            async fn webkit() {
                Engine::WebKit.run(module_path!(), super::$case).await;
            }
        }
    )+};
}

/// Where a program is looked for: the variable first, as everywhere in this project, then `PATH`, then these places.
struct Program {
    variable: &'static str,
    names: &'static [&'static str],
    places: &'static [&'static str],
}

impl Program {
    fn place(&self) -> Option<PathBuf> {
        if let Some(path) = env::var_os(self.variable).filter(|path| !path.is_empty()) {
            return Some(path.into());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = self.names.iter().flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)));
        on_path.chain(self.places.iter().map(PathBuf::from)).find(|candidate| candidate.is_file())
    }
}

const CHROMIUM: [Program; 2] = [
    Program { variable: "CHROMEDRIVER", names: &["chromedriver"], places: &[] },
    Program {
        variable: "PATCHKEEP_CHROMIUM",
        names: &["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"],
        places: &[],
    },
];

const FIREFOX: [Program; 2] = [
    Program { variable: "GECKODRIVER", names: &["geckodriver"], places: &[] },
    Program { variable: "PATCHKEEP_FIREFOX", names: &["firefox-esr", "firefox"], places: &[] },
];

const WEBKIT: [Program; 3] = [
    Program { variable: "PATCHKEEP_WEBKIT_DRIVER", names: &["WebKitWebDriver"], places: &[] },
    Program {
        variable: "PATCHKEEP_MINIBROWSER",
        names: &["MiniBrowser"],
        places: &["/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser"],
    },
    Program { variable: "PATCHKEEP_XVFB", names: &["Xvfb"], places: &[] },
];
