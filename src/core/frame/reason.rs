//! Why a patch was refused, and why a connection was.

/// A closed set of words. The last one named after `weakest` is what an unknown word reads as: a newer side may say words
/// that this version does not know, and neither frame nor record is dropped for that (§3).
macro_rules! codes {
    (
        $(#[$doc:meta])* $name:ident, weakest $weakest:ident {
            $($(#[$vdoc:meta])* $variant:ident = $code:literal),* $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// Every value, in the order of the protocol's text.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            /// The value with this word.
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// The value with this word; the weakest of its kind for a word that is not known here (§3).
            pub fn read(code: &str) -> Self {
                Self::from_code(code).unwrap_or(Self::$weakest)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use codes;

codes! {
    /// Why a patch has no effect (§3). A refusal whose reason is not known is a refusal.
    Reason, weakest HandlerRefused {
        /// Its deadline passed before the handler was called (J2).
        Expired = "expired",
        /// It was guarded, and the host had edits that the server has not confirmed.
        UnconfirmedEdits = "unconfirmed_edits",
        /// The handler refused for a reason of its own.
        HandlerRefused = "handler_refused",
        /// The handler threw, and reconcile proved that nothing was changed (J13).
        HandlerError = "handler_error",
        /// The anchor does not occur.
        AnchorNotFound = "anchor_not_found",
        /// The anchor occurs more than once.
        AnchorAmbiguous = "anchor_ambiguous",
        /// The document is not open in this tab.
        NotOpen = "not_open",
        /// The frame names another incarnation than the open one.
        WrongIncarnation = "wrong_incarnation",
        /// The digest is not that of the body.
        DigestMismatch = "digest_mismatch",
        /// The id is known with another body (J5). Not a proof of absence: the known one may have taken effect.
        PatchIdReused = "patch_id_reused",
        /// The frame or the body is not what the protocol describes.
        Malformed = "malformed",
        /// The frame is over the size limit.
        TooLarge = "too_large",
        /// An earlier patch of the document does not settle (J9).
        Busy = "busy",
        /// An offset is past the end, or inside a surrogate pair.
        OutOfRange = "out_of_range",
        /// The text that had to be there is not.
        ExpectMismatch = "expect_mismatch",
        /// A JSON patch that does not apply.
        PatchFailed = "patch_failed",
    }
}

codes! {
    /// Why the server closes a connection after `reject`. What is not known here costs this connection and no more.
    RejectCode, weakest TooManySockets {
        /// A higher epoch of the tab, or another context with the same one, is known (T3).
        StaleEpoch = "stale_epoch",
        /// The server does not speak this version.
        UnsupportedProtocol = "unsupported_protocol",
        /// The credentials are missing or no longer valid.
        Unauthorized = "unauthorized",
        /// The tab id belongs to another user.
        TabNotYours = "tab_not_yours",
        /// The credentials are another principal's than `hello` names (T6).
        PrincipalMismatch = "principal_mismatch",
        /// There are as many sockets as the server holds: later there may be room.
        TooManySockets = "too_many_sockets",
        /// A person has settled a key as not applied, and this tab's content was fenced for it (S10).
        SettledElsewhere = "settled_elsewhere",
    }
}

impl RejectCode {
    /// The close code that follows the frame, 4400 to 4406. It says nothing by itself: other software uses these, too.
    pub const fn close_code(self) -> u16 {
        match self {
            Self::StaleEpoch => 4400,
            Self::UnsupportedProtocol => 4401,
            Self::Unauthorized => 4402,
            Self::TabNotYours => 4403,
            Self::PrincipalMismatch => 4404,
            Self::TooManySockets => 4405,
            Self::SettledElsewhere => 4406,
        }
    }
}
