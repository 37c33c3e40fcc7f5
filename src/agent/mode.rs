//! The modes of a package: what `config.json` may hold steps for and what an executor may ask for.

use std::fmt;

/// One mode of upstream contract E.2; every mode but `interrupt` has a `-check` companion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Puts the package on the host.
    Apply,
    /// Proves `Apply`.
    ApplyCheck,
    /// Brings the host in line with the package's configuration.
    Config,
    /// Proves `Config`.
    ConfigCheck,
    /// Runs a reboot or service restart; its payload comes as an argument, its steps never run.
    Interrupt,
    /// Runs after the interrupt.
    PostInterrupt,
    /// Proves `PostInterrupt`.
    PostInterruptCheck,
    /// Takes the package off the host.
    Uninstall,
    /// Proves `Uninstall`.
    UninstallCheck,
    /// Replaces an earlier version.
    Upgrade,
    /// Proves `Upgrade`.
    UpgradeCheck,
}

impl Mode {
    /// Every mode, in the order messages list them.
    pub const ALL: [Self; 11] = [
        Self::Apply,
        Self::ApplyCheck,
        Self::Config,
        Self::ConfigCheck,
        Self::Interrupt,
        Self::PostInterrupt,
        Self::PostInterruptCheck,
        Self::Uninstall,
        Self::UninstallCheck,
        Self::Upgrade,
        Self::UpgradeCheck,
    ];

    /// Returns the mode of that exact name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }

    /// Returns the name used in arguments, `config.json` and flag files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::ApplyCheck => "apply-check",
            Self::Config => "config",
            Self::ConfigCheck => "config-check",
            Self::Interrupt => "interrupt",
            Self::PostInterrupt => "post-interrupt",
            Self::PostInterruptCheck => "post-interrupt-check",
            Self::Uninstall => "uninstall",
            Self::UninstallCheck => "uninstall-check",
            Self::Upgrade => "upgrade",
            Self::UpgradeCheck => "upgrade-check",
        }
    }

    /// Returns the mode that proves this one; `None` for checks and for `interrupt`.
    pub fn check(self) -> Option<Self> {
        match self {
            Self::Apply => Some(Self::ApplyCheck),
            Self::Config => Some(Self::ConfigCheck),
            Self::PostInterrupt => Some(Self::PostInterruptCheck),
            Self::Uninstall => Some(Self::UninstallCheck),
            Self::Upgrade => Some(Self::UpgradeCheck),
            Self::ApplyCheck
            | Self::ConfigCheck
            | Self::Interrupt
            | Self::PostInterruptCheck
            | Self::UninstallCheck
            | Self::UpgradeCheck => None,
        }
    }

    /// Tells whether all steps run and their results are counted, instead of stopping at the first.
    pub fn is_check(self) -> bool {
        self.check().is_none() && self != Self::Interrupt
    }

    /// Tells whether steps get the previous and the current version.
    pub fn is_upgrade(self) -> bool {
        matches!(self, Self::Upgrade | Self::UpgradeCheck)
    }

    /// Tells whether the host is left alone: no overlay, no expected configuration.
    pub fn is_uninstall(self) -> bool {
        matches!(self, Self::Uninstall | Self::UninstallCheck)
    }

    /// Tells whether a step runs again although its flag exists (upstream contract E.5).
    pub fn ignores_flags(self) -> bool {
        matches!(self, Self::Config | Self::Uninstall | Self::Upgrade)
    }

    /// Tells whether success of this mode is a fact for the package's history.
    pub fn records_history(self) -> bool {
        matches!(self, Self::ApplyCheck | Self::UpgradeCheck | Self::UninstallCheck)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}
