//! One file a subcommand.

pub mod accuracy;
pub mod analyze;
pub mod bench;
pub mod capacity;
pub mod compare;
pub mod failure_test;
pub mod import;
pub mod init;
pub mod lint;
pub mod manual;
pub mod model;
pub mod observability;
pub mod oracle;
pub mod plan;
pub mod reproduce;
pub mod schedule;
pub mod simulate;
pub mod size;
pub mod sweep;
pub mod trace;
pub mod verify_pack;
pub mod whatif;
