//! Help, completions, manual pages and the list of commands.

use insta::assert_snapshot;

use crate::program::{Home, finish, root};

#[test]
fn help_is_for_people() {
    let home = Home::new();
    assert_snapshot!(home.ok(&["--help"]), @r"
    The gate between agents, people and their tools

    Usage: toolgate [OPTIONS] <COMMAND>

    Commands:
      serve            Serve the API and the console until stopped
      mcp              Speak the Model Context Protocol on standard input and output, for clients that
                       start their servers
      init             Make the data folder, the database and the first tenant, and say what to do next
      doctor           Check what works and what does not, and say what to do about it
      search           Search tools, agents, skills, workflows and prompts
      call             Call a tool and print how it ended
      calls            Read calls, stop them, and say how they ended
      run              Open runs, look at them and follow them
      replay           Replay an agent's run from its bundle, without a server
      input            Ask people on behalf of a run, and answer what was asked
      approvals        Look at calls that wait for a person, and decide on them
      grant            Allow calls for a while without asking each time
      work             Carry out external tools, by hand or from a script
      migrate          Take over what was written for another way of running things
      invoke           Run an entry of a `goblins.yaml` through the gate
      tool             List, register, switch and assign tools
      import           Make tools of what others describe, and put clients' servers behind the gate
      agent            Manage agents and see which tools they have
      skill            Keep instructions that clients offer their users and agents are given
      workflow         Keep and run graphs of tools, agents and questions to people
      provider         Say where the models of agents are, and what they cost
      profile          Manage profiles, which tighten what an agent may do
      policy           Say who may call which tool, and when a person is asked first
      guardrail        Have arguments and results examined
      label            See what callers have seen, and accept where it may go
      limits           Limit how often and for how much this tenant calls tools
      killswitch       Stop a tenant, an agent or a tool at once
      usage            Show what was used and what it cost
      webhook          Tell others of what happens, by signed webhooks
      settings         Show and change how this tenant works
      egress           Open hosts inside to tools and webhooks
      plugin           Install plug-ins: components that tools may name
      upstream         Put servers of others behind the gate
      key              Manage API keys
      token            Make short-lived tokens that can do less than you, and take them back
      secret           Keep secrets for tools, and give them to tools and hosts
      keys             Look after the server's own keys
      tenant           Manage tenants
      user             Manage users and let them sign in
      invitation       Invite people
      session          See where people are signed in, and sign them out
      workspace        Manage workspaces
      audit            Read, export and verify the log of everything that happened
      verify-response  Check the signature of an answer of `POST /invoke`
      db               Look after the database
      config           Show and check the configuration
      retention        Delete old finished calls of this tenant; without --apply only say how many
      person           Answer a person's request about their data
      whoami           Show who you are here and what you may do
      completions      Print the completions of a shell
      man              Print the manual page, or write the pages of all commands into a folder
      help             Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Where and how:
          --data <DIR>
              Work on this data folder [default: the platform's data folder] [env: TOOLGATE_DATA]

          --server <URL>
              Work on the server at this address, with a key [env: TOOLGATE_SERVER]

          --key <KEY>
              The API key for --server; other users of this machine can see it here, so prefer the
              variable or --key-file [env: TOOLGATE_KEY]

          --key-file <FILE>
              A file that holds the API key for --server

          --tenant <SLUG>
              The tenant to work in [env: TOOLGATE_TENANT]

          --config <FILE>
              The configuration file [default: toolgate.yaml in the data folder, if it is there] [env:
              TOOLGATE_CONFIG]

          --json
              Print one JSON value instead of text for people

    Exit status:
      0   done
      1   it failed, was refused, or what was named is not there
      2   usage or configuration: the command, a file or a setting is not understood
      3   waiting for a person, or still running
      4   the server or the database cannot be reached
      5   no right: the key is missing, unknown, or may not do this

    With --json an error is also one JSON object (RFC 9457) on standard output.
    ");
    assert_snapshot!(home.ok(&["tool", "--help"]), @r"
    List, register, switch and assign tools

    Usage: toolgate tool [OPTIONS] <COMMAND>

    Commands:
      list         List the tools you have, or the assignments, or the profiles
      show         Show one tool; a namespace alone lists its functions
      search       Search tools by what they are for
      categories   List the categories and how many tools each has
      test         Test a TOOL.md offline, without a database or a server
      register     Register a tool from its TOOL.md; without --apply only say what would change
      enable       Switch a tool on for this tenant
      disable      Switch a tool off for this tenant
      activate     Make a deprecated or blocked tool active again
      deprecate    Mark a tool as outgoing: it is no longer offered, and still runs
      block        Stop a tool: it never runs
      classify     Say what a tool does, where its runner tells too little; for the operator
      override     Adjust a shared tool for this tenant
      delete       Delete a tool that this tenant made and nothing uses
      assign       Assign a tool to an agent
      revoke       Take an assignment back
      approve      Approve a call that waits: by the call's id, or the approval's
      reject       Reject a call that waits: by the call's id, or the approval's
      preflight    Check whether a tool could be called now, without calling it
      invocations  List calls, newest first, in the columns of `tool_invocations_v`
      versions     List the versions of a tool, newest first
      diff         Show what changed between two versions
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Where and how:
          --data <DIR>       Work on this data folder [default: the platform's data folder] [env:
                             TOOLGATE_DATA]
          --server <URL>     Work on the server at this address, with a key [env: TOOLGATE_SERVER]
          --key <KEY>        The API key for --server; other users of this machine can see it here, so
                             prefer the variable or --key-file [env: TOOLGATE_KEY]
          --key-file <FILE>  A file that holds the API key for --server
          --tenant <SLUG>    The tenant to work in [env: TOOLGATE_TENANT]
          --config <FILE>    The configuration file [default: toolgate.yaml in the data folder, if it is
                             there] [env: TOOLGATE_CONFIG]
          --json             Print one JSON value instead of text for people
    ");
    assert_eq!(finish(home.bare(&["help", "tool"]).spawn().unwrap()).stdout, home.ok(&["tool", "--help"]));
    assert_snapshot!(home.ok(&["key", "create", "-h"]), @r"
    Make an API key; its secret is printed once and never again

    Usage: toolgate key create [OPTIONS] <NAME>

    Arguments:
      <NAME>  What the key is called in lists

    Options:
          --scope <SCOPE>  A permission, a role or `tools:execute`; may be repeated [default:
                           tools:execute and calls.read.own]
          --agent <AGENT>  Whoever holds the key acts as this agent
          --owner <USER>   The user who answers for it [default: you]
          --days <N>       How long it lasts [default: until it is revoked]
      -h, --help           Print help

    Where and how:
          --data <DIR>       Work on this data folder [default: the platform's data folder] [env:
                             TOOLGATE_DATA]
          --server <URL>     Work on the server at this address, with a key [env: TOOLGATE_SERVER]
          --key <KEY>        The API key for --server; other users of this machine can see it here, so
                             prefer the variable or --key-file [env: TOOLGATE_KEY]
          --key-file <FILE>  A file that holds the API key for --server
          --tenant <SLUG>    The tenant to work in [env: TOOLGATE_TENANT]
          --config <FILE>    The configuration file [default: toolgate.yaml in the data folder, if it is
                             there] [env: TOOLGATE_CONFIG]
          --json             Print one JSON value instead of text for people

    Examples:
      toolgate key create ci --days 90
      toolgate key create billing-agent --agent billing
      toolgate key create admin-laptop --scope admin --scope operator > key.txt
    ");
}

#[test]
fn the_version_is_printed() {
    let ran = finish(Home::new().bare(&["--version"]).spawn().unwrap());
    assert_eq!((ran.code, ran.stdout), (0, format!("toolgate {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn every_help_text_begins_like_a_command_and_fits() {
    let home = Home::new();
    for path in home.ok(&["commands"]).lines() {
        let arguments: Vec<_> = path.split(' ').chain(["-h"]).collect();
        let help = home.ok(&arguments);
        let first = help.lines().next().unwrap();
        assert!(
            first.starts_with(|c: char| c.is_ascii_uppercase()) && !first.ends_with('.') && first.len() < 100,
            "{path}: {first}"
        );
        assert!(!help.contains("\n      --type <TYPE>\n"), "{path}");
    }
}

/// `docs/commands.txt` lets other tests know the commands without building them.
#[test]
fn the_list_of_commands_is_the_documented_one() {
    let printed = Home::new().ok(&["commands"]);
    let documented = std::fs::read_to_string(root().join("docs/commands.txt")).unwrap();
    assert_eq!(printed, documented, "write it with: toolgate commands > docs/commands.txt");
}

#[test]
fn completions_are_produced_for_every_shell() {
    let home = Home::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = home.ok(&["completions", shell]);
        assert!(script.contains("toolgate") && script.contains("sign-in-link"), "{shell}");
    }
    assert!(home.fails(&["completions", "bsh"]).contains("similar value exists: 'bash'"));
}

#[test]
fn manual_pages_are_produced_for_every_command() {
    let home = Home::new();
    let page = home.ok(&["man"]);
    assert!(page.contains(".TH toolgate 1") && page.contains("Exit status"), "{page}");
    let pages = home.json(&["man", "--out", "pages"]);
    for path in home.ok(&["commands"]).lines() {
        let name = format!("toolgate-{}.1", path.replace(' ', "-"));
        assert!(pages["pages"].as_array().unwrap().iter().any(|page| *page == name), "{name} is not in {pages}");
        assert!(home.path().join("pages").join(name).metadata().unwrap().len() > 0);
    }
    home.write("file", "");
    assert!(home.fails(&["man", "--out", "file"]).ends_with("exit 1"));
}

#[test]
fn nothing_is_made_where_nothing_is_needed() {
    let home = Home::new();
    for arguments in [&["commands"][..], &["man"], &["completions", "bash"], &["--help"], &["config", "check"]] {
        home.ok(arguments);
    }
    home.fails(&["tool", "test", "gone"]);
    assert!(!home.data().exists());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Home::new().bare(&["completions", "bash"]).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_a_command_there_is_help_and_nothing_was_done() {
    let mut home = Home::new();
    let bare = |home: &Home, arguments: &[&str]| finish(home.bare(arguments).spawn().unwrap());
    let help = bare(&home, &["-h"]).stdout;
    let tool_help = bare(&home, &["tool", "-h"]).stdout;
    for data in [None, Some("elsewhere")] {
        if let Some(data) = data {
            home.set("TOOLGATE_DATA", data);
        }
        for (arguments, expected) in [(&[][..], &help), (&["tool"], &tool_help)] {
            let ran = bare(&home, arguments);
            assert_eq!((ran.code, ran.stdout.trim_end(), ran.stderr.as_str()), (2, expected.trim_end(), ""));
        }
        let ran = bare(&home, &["--json"]);
        assert!(ran.code == 2 && !ran.stderr.contains("commands,"), "{}", ran.stderr);
        let ran = bare(&home, &["tool", "list", "--assignments", "--profiles"]);
        assert!(
            ran.code == 2 && !ran.stderr.contains("--data"),
            "a variable is no word of the command: {}",
            ran.stderr
        );
    }
}
