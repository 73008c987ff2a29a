//! Schemas, completions and man pages: all from the definitions that the program itself runs on.

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs, ManArgs, Output, SchemaArgs};
use crate::exit::{Exit, Outcome, Stop};

pub(crate) fn schema(args: &SchemaArgs) -> Outcome {
    let schema = match args.output {
        Output::Compare => report::findings_schema(),
        Output::Report => report::page_schema(),
        Output::Load => report::load_schema(),
        Output::Capacity => report::capacity_schema(),
        Output::Watch => report::watch_schema(),
        Output::Case => report::case_schema(),
    };
    let text = serde_json::to_string_pretty(&schema).context("a schema is JSON")?;
    crate::print(&format!("{text}\n"))?;
    Ok(Exit::Done)
}

pub(crate) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "whyslow", &mut text);
    crate::print(&String::from_utf8(text).context("completions are text")?)?;
    Ok(Exit::Done)
}

pub(crate) fn man(args: &ManArgs) -> Outcome {
    let mut program = Cli::command();
    program.build();
    let command = match &args.command {
        None => program,
        Some(name) => program.find_subcommand(name).cloned().ok_or_else(|| {
            Stop::usage(anyhow::anyhow!("there is no command '{name}': see whyslow --help"))
        })?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).context("cannot lay out the man page")?;
    crate::print(&String::from_utf8(page).context("a man page is text")?)?;
    Ok(Exit::Done)
}
