//! What kind of machine this is, as far as it decides how something gets installed.

use std::fs;
use std::path::PathBuf;

use super::sh::Cmd;

/// An environment variable that is set and not empty.
pub fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The first of these programs that is on PATH.
pub fn on_path(names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| which::which(name).ok())
}

/// Whether `apt-get install` works here without asking anybody: Debian or a child of it, and root.
pub fn can_apt() -> bool {
    is_debian() && is_root() && on_path(&["apt-get"]).is_some()
}

/// Whether this is Debian itself, whose package names the wasm recipe uses.
pub fn is_debian() -> bool {
    fs::read_to_string("/etc/os-release").is_ok_and(|text| os_is(&text, "debian"))
}

fn is_root() -> bool {
    cfg!(unix) && Cmd::new("id").arg("-u").output().is_ok_and(|id| id.trim() == "0")
}

/// Whether an os-release file says that its system is `id` or one like it.
fn os_is(os_release: &str, id: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| matches!(name.trim(), "ID" | "ID_LIKE"))
        .flat_map(|(_, value)| value.trim().trim_matches(['"', '\'']).split_whitespace())
        .any(|word| word == id)
}

#[cfg(test)]
mod tests {
    use super::os_is;

    #[test]
    fn os_release_names_its_system_and_its_parents() {
        assert!(os_is("PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_ID=\"12\"\nID=debian\n", "debian"));
        assert!(os_is("ID='linuxmint'\nID_LIKE=\"ubuntu debian\"\n", "debian"));
        assert!(!os_is("NAME=Fedora\nID=fedora\n", "debian"));
        assert!(!os_is("NAME=debian\nVARIANT_ID=debian\n", "debian"));
        assert!(!os_is("", "debian"));
    }
}
