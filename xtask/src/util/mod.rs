//! What every command uses: places, processes, stamps, and what kind of machine this is.

pub mod files;
pub mod lock;
pub mod machine;
pub mod paths;
pub mod sh;
pub mod stamp;
