//! The names of variables that choose what runs: who sets one of them runs a program of their own, or has another library,
//! module or configuration loaded. The operator may set them; callers may not.
//!
//! Deliberately absent: variables that only name something a program reads as data, and those of the operator's own
//! programs, which nobody here knows.

/// Names that begin so: of the loader and the C library; of shells; of interpreters, whose modules, start-up files and
/// options they choose; of package managers, which take every setting so, a shell for scripts among them; of Git's settings.
const BEGINNINGS: &str = "
    LD_ DYLD_ GLIBC_ MALLOC_ GCONV_ BASH_ PYTHON PERL RUBY GEM_ BUNDLE_ LUA_ PHP_ JULIA_ CORECLR_ COR_ ERL_
    NPM_CONFIG_ YARN_ PNPM_ PIP_ UV_ CARGO_ RUSTUP_ COMPOSER_ DENO_ BUN_ GIT_CONFIG
";

/// These names, and no others: of shells, where programs are and what is read at the start; where programs look for a
/// configuration, which may name programs; programs that others start; Git; build tools; Node and Java; others that load.
const NAMES: &str = "
    PS0 PS1 PS2 PS3 PS4 PSMODULEPATH PATH ENV IFS SHELL SHELLOPTS BASHOPTS PROMPT_COMMAND CDPATH FPATH ZDOTDIR
    GLOBIGNORE HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS EDITOR VISUAL PAGER MANPAGER
    BROWSER LESSOPEN LESSCLOSE LESSKEY SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH CVS_RSH TAR_OPTIONS GZIP XZ_OPT GIT_SSH
    GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS GIT_EXTERNAL_DIFF
    GIT_DIFF_OPTS GIT_PROXY_COMMAND GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_DIR GIT_COMMON_DIR GIT_WORK_TREE
    GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_ATTR_SOURCE GIT_ATTR_SYSTEM
    GIT_ALLOW_PROTOCOL MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKEFILES MAKESHELL RUSTC RUSTDOC RUSTC_WRAPPER
    RUSTC_WORKSPACE_WRAPPER RUSTFLAGS RUSTDOCFLAGS GOFLAGS GOROOT GOPATH GOENV GOTOOLCHAIN COMPILER_PATH
    GCC_EXEC_PREFIX CMAKE_TOOLCHAIN_FILE NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE JAVA_TOOL_OPTIONS
    _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS JAVA_HOME CLASSPATH MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS GRADLE_USER_HOME
    ANT_OPTS PHPRC LUA_INIT R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER TCLLIBPATH GUILE_LOAD_PATH
    GUILE_LOAD_COMPILED_PATH VIMINIT EXINIT PSQLRC PSQL_EDITOR MYSQL_HOME OPENSSL_CONF OPENSSL_MODULES
    OPENSSL_ENGINES GTK_MODULES GTK_PATH QT_PLUGIN_PATH TERMINFO TERMINFO_DIRS TERMCAP LOCPATH NLSPATH HOSTALIASES
    RES_OPTIONS DOCKER_HOST DOCKER_CONFIG KUBECONFIG WGETRC CURL_HOME ANSIBLE_CONFIG TF_CLI_CONFIG_FILE
    DOTNET_STARTUP_HOOKS DOTNET_ROOT DOTNET_ADDITIONAL_DEPS DOTNET_SHARED_STORE
";

/// Programs that set what an argument such as `NAME=value` says, for the program that they start.
const SETTERS: &[&str] = &["env", "sudo", "doas"];

/// Whether setting a variable of this name chooses what runs. Some programs take either case.
pub fn runs_programs(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let begins = BEGINNINGS.split_whitespace().any(|beginning| name.starts_with(beginning));
    begins || NAMES.split_whitespace().any(|known| known == name)
}

/// The variable that an argument sets, where it chooses what runs.
pub(super) fn set_by<'a>(program: &str, argument: &'a str) -> Option<&'a str> {
    let program = program.rsplit('/').next().unwrap_or(program);
    let (name, _) = argument.split_once('=')?;
    (SETTERS.contains(&program) && runs_programs(name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_programs_or_changes_loading_is_known_by_its_name() {
        for name in
            "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES GLIBC_TUNABLES GCONV_PATH PATH ENV BASH_ENV \
            IFS SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND HOME PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONBREAKPOINT \
            NODE_OPTIONS NODE_PATH PERL5LIB PERL5OPT PERL5DB PERLLIB RUBYOPT RUBYLIB GEM_PATH GIT_SSH \
            GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_CONFIG_GLOBAL GIT_CONFIG_KEY_0 GIT_EXEC_PATH GIT_DIR \
            npm_config_script_shell NPM_CONFIG_NODE_OPTIONS EDITOR PAGER LESSOPEN MAKEFLAGS RUSTC_WRAPPER \
            CARGO_HOME JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH DOTNET_STARTUP_HOOKS OPENSSL_CONF"
                .split(' ')
        {
            assert!(runs_programs(name), "{name}");
        }
        for name in
            "LEVEL NODE_ENV GIT_AUTHOR_NAME GIT_COMMITTER_DATE LANG LC_ALL TZ TERM NO_COLOR CI DATABASE_URL MODE \
            USER RUST_LOG RUST_BACKTRACE HTTP_PROXY TMPDIR AWS_REGION"
                .split(' ')
        {
            assert!(!runs_programs(name), "{name}");
        }
    }

    #[test]
    fn an_argument_sets_a_variable_only_for_programs_that_do_so() {
        let check = |program: &str, argument: &str, expected: Option<&str>| {
            assert_eq!(set_by(program, argument), expected, "{program} {argument}");
        };
        check("env", "LD_PRELOAD=/x.so", Some("LD_PRELOAD"));
        check("/usr/bin/env", "PATH=/x", Some("PATH"));
        check("/usr/bin/sudo", "PYTHONPATH=", Some("PYTHONPATH"));
        check("/usr/bin/env", "LEVEL=debug", None);
        check("/usr/bin/env", "PATH", None);
        check("make", "ENV=production", None);
        check("/usr/bin/grep", "PATH=x", None);
    }
}
