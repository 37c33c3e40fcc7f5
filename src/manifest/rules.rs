//! Every rule that a manifest can break: its stable code, its title, how bad it is.
//!
//! In: nothing. Out: the table. Must never: give a code that was once used to another rule;
//! people search for codes and silence them.

use crate::model::Severity;

/// Defines the rules and their table in one place.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident $code:literal $severity:ident $title:literal;)*) => {
        /// A rule about what is read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $title] $name,)*
        }

        impl Rule {
            /// Every rule, by code.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// Returns what the rule is about, in a few words.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// Returns how bad it is to break it.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }
        }
    };
}

rules! {
    // What can be read at all.
    FileTooLarge      "NW0101" Error   "a file is larger than what is read";
    TooManyFiles      "NW0102" Error   "there are more files than are read";
    Symlink           "NW0103" Error   "a symbolic link stands where a manifest is expected";
    SymlinkSkipped    "NW0104" Note    "a symbolic link to a file that is read anyway is skipped";
    Submodule         "NW0105" Error   "a Git submodule is not read";
    LfsPointer        "NW0106" Error   "a Git LFS pointer stands where a manifest is expected";
    FileName          "NW0107" Error   "the name of a file is not UTF-8";
    NotText           "NW0108" Error   "a file is not UTF-8 text";
    PathMissing       "NW0109" Error   "the folder with the manifests does not exist";
    Unreadable        "NW0110" Error   "a file or folder cannot be opened";

    // What is YAML.
    Syntax            "NW0111" Error   "a document is not valid YAML";
    TooManyNodes      "NW0112" Error   "a document grows too large through its aliases";
    TooDeep           "NW0113" Error   "a document is nested too deep";
    TooManyDocuments  "NW0114" Error   "a file has too many documents";
    DuplicateKey      "NW0115" Error   "a key is written twice in one map";
    UnsupportedYaml   "NW0116" Error   "a feature of YAML that is not read";
    AmbiguousText     "NW0117" Warning "text that kubectl takes for another type";

    // What is an object, and whose.
    NotAnObject       "NW0121" Note    "a document is no Kubernetes object and is skipped";
    ForeignKind       "NW0122" Note    "an object of another kind is skipped";
    IncompleteHeader  "NW0123" Error   "a document does not say what it is";
    UnknownKind       "NW0124" Error   "a kind or version that the group does not have";
    LegacyGroup       "NW0125" Warning "an object is written under the group's former name";
    ObjectName        "NW0126" Error   "metadata.name is missing or not a valid name";
    DuplicateObject   "NW0127" Error   "one object is written twice in the same layer";
    BaseUnreadable    "NW0128" Error   "an object depends on a document that cannot be read";

    // What the fields are.
    UnknownField      "NW0131" Error   "a field that does not exist";
    MissingField      "NW0132" Error   "a required field is missing";
    WrongType         "NW0133" Error   "a value of the wrong type";
    UnquotedVersion   "NW0134" Error   "a version without quotes is a number in YAML";
    NotAllowed        "NW0135" Error   "a value that is not one of the allowed ones";
    OutOfRange        "NW0136" Error   "a number outside its range";
    TextForm          "NW0137" Error   "a text that is too long or has the wrong form";
    TooManyEntries    "NW0138" Error   "a list or map with too many entries";
    FieldUnreadable   "NW0139" Error   "a value that cannot be used";

    // What the packages say.
    Version           "NW0141" Error   "a version is not a semantic version";
    ImageTag          "NW0142" Error   "an image carries a tag or digest";
    PackageName       "NW0143" Error   "a package's name is not valid";
    PackageNameKey    "NW0144" Error   "a package's name differs from its key";
    DependencyMissing "NW0145" Error   "a dependency names a package that is not there";
    DependencyVersion "NW0146" Error   "a dependency names another version than is there";
    DependencyCycle   "NW0147" Error   "packages depend on each other in a circle";
    ApplyWithoutUninstall "NW0148" Error "an uninstall is requested that is not enabled";
    ResourcesPartial  "NW0149" Error   "only some of the four resources are given";
    ResourcesValue    "NW0150" Error   "a resource is not a positive quantity or above its limit";
    ConfigInterrupt   "NW0151" Error   "an interrupt names a config key that is not there";
    Services          "NW0152" Warning "services and the type of the interrupt do not fit";
    Toleration        "NW0153" Error   "a toleration is not valid";
    ConfigSize        "NW0154" Error   "the files of a package are too large together";

    // What the rollout says.
    Selector          "NW0161" Error   "a selector is not valid";
    SelectsEverything "NW0162" Warning "a selector selects every node";
    BudgetBoth        "NW0163" Error   "percent and count are given together";
    BudgetZero        "NW0164" Warning "a budget of zero picks no node";
    PolicyAndBudget   "NW0165" Error   "a policy and a budget are given together";
    PolicyMissing     "NW0166" Error   "the policy that is named does not exist";
    PolicyRefused     "NW0167" Error   "the policy that is named is refused";
    PolicyHeld        "NW0168" Note    "a policy waits for the resource that names it";
    WithoutRuntimeRequired "NW0169" Warning "an option has no effect without runtimeRequired";
    Duration          "NW0170" Error   "a duration is not valid";

    // What the policy says.
    PolicyBudget      "NW0171" Error   "not exactly one of percent and count is given";
    PolicyStrategy    "NW0172" Error   "not exactly one strategy is given";
    CompartmentName   "NW0173" Error   "a compartment's name is reserved or used twice";
    CompartmentSelector "NW0174" Error "two compartments have the same selector";

    // Where it belongs.
    UnknownCluster    "NW0181" Error   "the cluster has no folder";
    ClusterFile       "NW0182" Error   "a cluster has no cluster.yaml that can be read";
    UnknownPool       "NW0183" Error   "a pool that is listed has no folder";
    ClusterName       "NW0184" Error   "cluster.yaml names another cluster";
    OverlayWithoutBase "NW0185" Warning "what looks like an overlay has no base";

    MoreFindings      "NW0199" Note    "there are more findings than are shown";
}
