//! What is taken, what is refused, and how a second statement may try to hide.

use super::Dialect::{Postgres, Sqlite};
use super::*;

#[track_caller]
fn refused(statement: &str, dialect: Dialect, effect: Effect, says: &str) {
    match judge(statement, dialect, effect) {
        Err(refusal) => assert!(refusal.to_string().contains(says), "{statement}: {refusal}"),
        Ok(judged) => panic!("{statement}: {judged:?}"),
    }
}

#[track_caller]
fn taken(statement: &str, effect: Effect, parameters: usize) {
    for dialect in [Postgres, Sqlite] {
        let judged = judge(statement, dialect, effect).unwrap_or_else(|refusal| panic!("{statement}: {refusal}"));
        assert_eq!(judged.parameters, parameters, "{statement} {dialect:?}");
    }
}

#[test]
fn queries_and_changes_are_taken() {
    taken("select 1", Effect::Reads, 0);
    taken(" ( SELECT $2, $1 ) -- the end ; \n ; ", Effect::Reads, 2);
    taken("with a as (select 1) select * from a where b = ';' and c = $1", Effect::Reads, 1);
    taken("/* why; */ values (1)", Effect::Reads, 0);
    taken("insert into t values ($1, 'it''s; fine')", Effect::Writes, 1);
    taken("update \"a;b\" set c = $3", Effect::Writes, 3);
    taken("create trigger t after insert on a begin insert into b values (1); delete from c; end;", Effect::Writes, 0);
    let counted = |statement, dialect| judge(statement, dialect, Effect::Reads).map(|judged| judged.parameters);
    assert_eq!(counted("select ?, ?", Sqlite), Ok(2));
    assert_eq!(counted("select ?2, [a;b], `c;d`", Sqlite), Ok(2));
    assert_eq!(counted("select $1::int, $tag$ ; $2 $tag$, E'\\';', a ? 'b', /* /* ; */ ; */ 1", Postgres), Ok(1));
    assert_eq!(counted("select $1 /* ; ", Sqlite), Ok(1));
}

#[test]
fn a_second_statement_is_refused_however_it_is_hidden() {
    for statement in [
        "select 1; drop table t",
        "select 1;;select 2",
        "select '''; drop table x; --'; drop table t",
        "select 1 -- \n; delete from t",
        "select 1 /* ' */; delete from t /* ' */",
        "select \"a\"\"b\"; delete from t",
        "create table trigger_begin(a); drop table t; end",
    ] {
        for dialect in [Postgres, Sqlite] {
            refused(statement, dialect, Effect::Writes, "more than one statement");
        }
    }
    refused("select $$a$$; delete from t", Postgres, Effect::Writes, "more than one statement");
    refused("select $a$ $b$ $a$; delete from t -- $b$", Postgres, Effect::Writes, "more than one statement");
    refused("select E'\\''; delete from t --'", Postgres, Effect::Writes, "more than one statement");
    refused("select /* /* */ 1; */ 2; delete from t", Postgres, Effect::Writes, "more than one statement");
    refused("select /* /* */ 1; delete from t -- */", Sqlite, Effect::Writes, "more than one statement");
    refused("select [a'b]; delete from t --'", Sqlite, Effect::Writes, "more than one statement");
}

#[test]
fn what_touches_sessions_files_and_programs_is_refused() {
    for (statement, word) in [
        ("COPY t TO PROGRAM 'id'", "`copy`"),
        ("copy (select 1) to '/tmp/x'", "`copy`"),
        ("do 'begin end'", "`do`"),
        ("set role admin", "`set`"),
        ("RESET ALL", "`reset`"),
        ("listen a", "`listen`"),
        ("notify a", "`notify`"),
        ("load 'x'", "`load`"),
        ("begin", "`begin`"),
        ("commit", "`commit`"),
        ("rollback", "`rollback`"),
        ("savepoint a", "`savepoint`"),
        ("prepare a as select 1", "`prepare`"),
        ("execute a", "`execute`"),
        ("lock t", "`lock`"),
        ("vacuum", "`vacuum`"),
        ("attach 'x' as y", "`attach`"),
        ("detach y", "`detach`"),
        ("pragma writable_schema = on", "`pragma`"),
        ("/**/ ( COPY", "`copy`"),
        ("'a'", "`'a'`"),
    ] {
        for dialect in [Postgres, Sqlite] {
            refused(statement, dialect, Effect::Writes, word);
        }
    }
    refused("do $$ begin end $$", Postgres, Effect::Writes, "`do`");
    for (statement, name) in [
        ("select pg_read_file('/etc/passwd')", "pg_read_file"),
        ("select PG_Read_Binary_File ('x')", "pg_read_binary_file"),
        ("select \"pg_ls_dir\"('/')", "pg_ls_dir"),
        ("select pg_catalog . pg_terminate_backend /* */ (1)", "pg_terminate_backend"),
        ("select * from dblink('host=a', 'select 1')", "dblink"),
        // Whatever runs a text as a statement runs what nobody has judged.
        ("select query_to_xml('select pg_terminate_backend(1)', true, true, '')", "query_to_xml"),
        ("select QUERY_TO_XML_AND_XMLSCHEMA('select 1', true, true, '')", "query_to_xml"),
        ("select * from ts_stat('select 1')", "ts_stat"),
        ("select set_config('role', 'admin', false)", "set_config"),
        ("select load_extension('x')", "load_extension"),
        ("select lo_export(1, '/tmp/x')", "lo_export"),
        ("select pg_advisory_lock(1)", "pg_advisory_lock"),
    ] {
        refused(statement, Postgres, Effect::Reads, name);
        refused(statement, Sqlite, Effect::Writes, name);
    }
    refused("select U&\"\\0070g_read_file\"('x')", Postgres, Effect::Reads, "U&");
}

#[test]
fn a_change_is_refused_where_only_reading_is_allowed() {
    for statement in ["insert into t values (1)", "DELETE from t", "drop table t", "call p()", "truncate t"] {
        refused(statement, Postgres, Effect::Reads, "changes the database");
    }
}

#[test]
fn what_cannot_be_read_is_told() {
    refused("", Postgres, Effect::Reads, "no statement");
    refused(" ; ; ", Sqlite, Effect::Reads, "no statement");
    refused("-- only a comment", Sqlite, Effect::Reads, "no statement");
    refused("select 'a", Sqlite, Effect::Reads, "a text in `'` does not end");
    refused("select \"a", Postgres, Effect::Reads, "a quoted name does not end");
    refused("select $a$ b", Postgres, Effect::Reads, "a text in `$` does not end");
    refused("select 1 /* a", Postgres, Effect::Reads, "a comment does not end");
    refused("select 1 \0; drop table t", Sqlite, Effect::Reads, "NUL");
    refused("select :name", Sqlite, Effect::Reads, "`:name` has no number");
    refused("select $1::text", Sqlite, Effect::Reads, "`$1::text` has no number");
    refused("select $0", Postgres, Effect::Reads, "`0` has no number");
    refused("select $1, ?", Sqlite, Effect::Reads, "`?` and `$1`");
}

#[test]
fn a_definition_is_judged_before_its_database_is_known() {
    assert_eq!(judge_anywhere("select $1"), Ok(Some(1)));
    assert_eq!(judge_anywhere("select $1::text"), Ok(None));
    assert_eq!(judge_anywhere("select ?"), Ok(None));
    assert_eq!(judge_anywhere("select 1; select 2"), Err(Refusal::Several));
    assert_eq!(judge_anywhere("select $$;$$"), Ok(None));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "([ -~]|[\\$'\"/*;\\-\\[\\]a-zé\n]){0,60}") {
        for dialect in [Postgres, Sqlite] {
            let _ = judge(&text, dialect, Effect::Writes);
        }
    }
}
