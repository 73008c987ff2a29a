//! The kinds of repositories that are recognised, each by a file of its own.

use std::fs;
use std::path::{Path, PathBuf};

use super::recipe::Recipe;
use super::seen::quoted;

/// Reads what a folder holds; the program is the one that was seen running, if any.
type Kind = fn(&Folder, Option<&str>) -> Option<Recipe>;

/// All kinds: the first that fits counts. What is written in a language of its own often has a `package.json` for its pages beside it.
const KINDS: [Kind; 11] = [rust, go, maven, gradle, ruby, php, node, python, make, compose, dockerfile];

/// Files that hold a Python server, the likeliest first.
const PYTHON_PROGRAMS: [&str; 4] = ["app.py", "main.py", "server.py", "wsgi.py"];
/// Files that hold a server of Node, the likeliest first.
const NODE_PROGRAMS: [&str; 4] = ["server.js", "index.js", "app.js", "main.js"];
/// Names of a first rule that is no program.
const NO_PROGRAMS: [&str; 9] =
    ["all", "build", "default", "help", "test", "tests", "check", "run", "install"];

pub(super) fn recognise(folder: &Path, program: Option<&str>) -> Option<Recipe> {
    let folder = Folder(folder.to_owned());
    KINDS.iter().find_map(|kind| kind(&folder, program))
}

/// A folder that is looked at: what cannot be read is not there.
struct Folder(PathBuf);

impl Folder {
    fn has(&self, name: &str) -> bool {
        self.0.join(name).is_file()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    /// The first of some files that is there.
    fn first<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has(name))
    }

    /// Names of what is in a folder below, in order.
    fn names(&self, below: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(below)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// The text between quotes behind `key` and a colon or an equals sign.
fn value_of(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix(key)?.trim_start().strip_prefix(['=', ':'])?.trim_start();
        let quote = rest.chars().next().filter(|c| "'\"".contains(*c))?;
        Some(rest[1..].split(quote).next()?.to_owned())
    })
}

/// The text of the element of XML that comes first.
fn element(text: &str, name: &str) -> Option<String> {
    let begin = text.split_once(&format!("<{name}>"))?.1;
    Some(begin.split_once(&format!("</{name}>"))?.0.trim().to_owned())
}

/// `also: NAME, NAME`, of what else could be meant.
fn others(names: &[String]) -> Option<String> {
    (names.len() > 1).then(|| format!("there are also {}", names[1..].join(", ")))
}

fn rust(folder: &Folder, program: Option<&str>) -> Option<Recipe> {
    let manifest = folder.has("Cargo.toml").then(|| folder.read("Cargo.toml"))?;
    let mut names = rust_binaries(folder, &manifest);
    let of_members = names.is_empty();
    for member in rust_members(folder, &manifest) {
        let member = Folder(folder.0.join(member));
        names.extend(rust_binaries(&member, &member.read("Cargo.toml")));
    }
    if let Some(seen) = program.and_then(|program| program.rsplit('/').next()) {
        names.sort_by_key(|name| name != seen);
    }
    let build = match names.first() {
        Some(name) if of_members => format!("cargo build --release --bin {name}"),
        _ => "cargo build --release".to_owned(),
    };
    let run = names.first().map(|name| format!("./target/release/{name} --port {{port}}"));
    Some(Recipe { file: "Cargo.toml", build: Some(build), run, note: others(&names), ..Recipe::default() })
}

/// Folders of a workspace's members; a star stands for each folder there.
fn rust_members(folder: &Folder, manifest: &str) -> Vec<String> {
    let listed = manifest.split_once("members").and_then(|(_, rest)| rest.split_once('[')?.1.split_once(']'));
    let listed = listed.map_or("", |(members, _)| members);
    let members = listed.split('"').skip(1).step_by(2);
    members
        .flat_map(|member| match member.strip_suffix("/*") {
            Some(above) => folder.names(above).iter().map(|name| format!("{above}/{name}")).collect(),
            None => vec![member.to_owned()],
        })
        .collect()
}

/// Names of the binaries of a package.
fn rust_binaries(folder: &Folder, manifest: &str) -> Vec<String> {
    let Some((_, package)) = manifest.split_once("[package]") else { return Vec::new() };
    let mut names: Vec<String> =
        manifest.split("[[bin]]").skip(1).filter_map(|section| value_of(section, "name")).collect();
    if names.is_empty() && folder.has("src/main.rs") {
        names.extend(value_of(package, "name"));
    }
    let files = folder.names("src/bin");
    names.extend(files.iter().filter_map(|file| file.strip_suffix(".rs").map(str::to_owned)));
    names
}

fn go(folder: &Folder, program: Option<&str>) -> Option<Recipe> {
    if !folder.has("go.mod") {
        return None;
    }
    let is_main = |below: &str| {
        let files = folder.names(below);
        let sources = files.iter().filter(|file| file.ends_with(".go"));
        sources
            .map(|file| folder.read(&format!("{below}/{file}")))
            .any(|text| text.lines().any(|line| line.trim() == "package main"))
    };
    let mut commands: Vec<String> = folder.names("cmd");
    commands.retain(|name| is_main(&format!("cmd/{name}")));
    let seen = program.and_then(|program| program.rsplit('/').next());
    commands.sort_by_key(|name| Some(name.as_str()) != seen);
    let (package, name) = match commands.first() {
        Some(name) if !is_main(".") => (format!("./cmd/{name}"), name.as_str()),
        _ if is_main(".") => (".".to_owned(), "server"),
        _ => {
            return Some(Recipe {
                file: "go.mod",
                build: Some("go build ./...".to_owned()),
                ..Recipe::default()
            });
        }
    };
    let program = program.unwrap_or(name);
    Some(Recipe {
        file: "go.mod",
        build: Some(format!("go build -o {program} {package}")),
        run: Some(format!("./{program} -port {{port}}")),
        note: if package == "." { None } else { others(&commands) },
        ..Recipe::default()
    })
}

fn maven(folder: &Folder, _: Option<&str>) -> Option<Recipe> {
    let pom = folder.has("pom.xml").then(|| folder.read("pom.xml"))?;
    let build = if folder.has("mvnw") { "./mvnw -q package" } else { "mvn -q package" };
    let run = jar_of(&pom).map(|jar| format!("java -jar target/{jar}.jar {}", port_of_java(&pom)));
    Some(Recipe { file: "pom.xml", build: Some(build.to_owned()), run, ..Recipe::default() })
}

/// The name of the archive that a project of Maven makes, where its own lines tell.
fn jar_of(pom: &str) -> Option<String> {
    if element(pom, "packaging").is_some_and(|packaging| packaging != "jar") {
        return None;
    }
    let (before, own) = match pom.split_once("<parent>") {
        Some((before, rest)) => (before, rest.split_once("</parent>")?.1),
        None => ("", pom),
    };
    let own = format!("{before}{own}");
    // What comes behind the dependencies and plugins names those.
    let head = ["<dependencies>", "<build>", "<dependencyManagement>"]
        .iter()
        .fold(own.as_str(), |text, mark| text.split(mark).next().unwrap_or(text));
    let name = element(&own, "finalName").or_else(|| {
        let version = element(head, "version").or_else(|| element(&element(pom, "parent")?, "version"))?;
        Some(format!("{}-{version}", element(head, "artifactId")?))
    })?;
    (!name.contains('$')).then_some(name)
}

/// How a server of Java is told its port.
fn port_of_java(build_file: &str) -> &'static str {
    if build_file.contains("spring-boot") || build_file.contains("springframework.boot") {
        "--server.port={port}"
    } else {
        "{port}"
    }
}

fn gradle(folder: &Folder, _: Option<&str>) -> Option<Recipe> {
    let file = folder.first(&["build.gradle", "build.gradle.kts"])?;
    let text = folder.read(file);
    let tool = if folder.has("gradlew") { "./gradlew" } else { "gradle" };
    let settings = format!("{}\n{}", folder.read("settings.gradle"), folder.read("settings.gradle.kts"));
    let name = value_of(&settings, "rootProject.name");
    let applies = ["id 'application'", "id(\"application\")", "plugin: 'application'", "\n    application\n"];
    let (task, run) = if text.contains("springframework.boot") {
        let version = value_of(&text, "version").map_or_else(String::new, |version| format!("-{version}"));
        let jar = name.map(|name| format!("java -jar build/libs/{name}{version}.jar --server.port={{port}}"));
        ("bootJar", jar)
    } else if applies.iter().any(|line| text.contains(line)) {
        ("installDist", name.map(|name| format!("./build/install/{name}/bin/{name} {{port}}")))
    } else {
        ("assemble", None)
    };
    Some(Recipe { file, build: Some(format!("{tool} -q {task}")), run, ..Recipe::default() })
}

fn ruby(folder: &Folder, _: Option<&str>) -> Option<Recipe> {
    if !folder.has("config.ru") {
        return None;
    }
    let bundled = folder.has("Gemfile");
    let build = bundled.then(|| "bundle config set --local path vendor/bundle && bundle install".to_owned());
    let run = if bundled { "bundle exec puma -p {port}" } else { "puma -p {port}" };
    Some(Recipe { file: "config.ru", build, run: Some(run.to_owned()), ..Recipe::default() })
}

fn php(folder: &Folder, _: Option<&str>) -> Option<Recipe> {
    let file = folder.first(&["composer.json", "index.php", "public/index.php"])?;
    let build = (file == "composer.json").then(|| "composer install -q --no-dev".to_owned());
    let run = match folder.first(&["public/index.php", "index.php"]) {
        Some("public/index.php") => Some("php -S 127.0.0.1:{port} -t public"),
        Some(_) => Some("php -S 127.0.0.1:{port}"),
        None => None,
    };
    Some(Recipe { file, build, run: run.map(str::to_owned), ..Recipe::default() })
}

fn node(folder: &Folder, _: Option<&str>) -> Option<Recipe> {
    let file = folder.first(&["package-lock.json", "npm-shrinkwrap.json", "package.json"])?;
    let package: serde_json::Value = serde_json::from_str(&folder.read("package.json")).unwrap_or_default();
    // `npm ci` is for folders with a lock file and fails in all others.
    let mut build = if file == "package.json" { "npm install" } else { "npm ci" }.to_owned();
    if package["scripts"]["build"].is_string() {
        build.push_str(" && npm run build");
    }
    let program = package["main"].as_str().filter(|file| folder.has(file));
    let program = program.or_else(|| folder.first(&NODE_PROGRAMS));
    let start = match package["scripts"]["start"].as_str() {
        // Without npm between, which is not what is measured.
        Some(start) if start.starts_with("node ") && !start.contains(['&', '|', ';', '$', '>']) => {
            start.to_owned()
        }
        Some(_) => "npm start".to_owned(),
        None => match program {
            Some(program) => format!("node {}", quoted(program)),
            None => return Some(Recipe { file, build: Some(build), ..Recipe::default() }),
        },
    };
    let source = start.split(' ').nth(1).map(|file| folder.read(file)).unwrap_or_default();
    let port_env = source.contains("env.PORT") || !source.contains("argv");
    let run = if port_env { start } else { format!("{start} {{port}}") };
    Some(Recipe { file, build: Some(build), run: Some(run), port_env, ..Recipe::default() })
}

fn python(folder: &Folder, _: Option<&str>) -> Option<Recipe> {
    let named = folder.first(&["uv.lock", "requirements.txt", "pyproject.toml"]);
    let file = named.or_else(|| folder.first(&PYTHON_PROGRAMS))?;
    let (build, interpreter) = match named {
        Some("uv.lock") => (Some("uv sync --frozen"), "uv run --frozen python"),
        Some("requirements.txt") => {
            (Some("python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"), ".venv/bin/python")
        }
        Some(_) => (Some("python3 -m venv .venv && .venv/bin/pip install ."), ".venv/bin/python"),
        None => (None, "python3"),
    };
    let run = python_program(folder).map(|program| format!("{interpreter} {program}"));
    let source = folder.first(&PYTHON_PROGRAMS).map(|file| folder.read(file)).unwrap_or_default();
    let port_env = source.contains("environ") && source.contains("PORT") && !source.contains("argv");
    let told = |run: String| if port_env || run.contains("{port}") { run } else { format!("{run} {{port}}") };
    let (build, interpreter) = (build.map(str::to_owned), named.map(|_| interpreter));
    Some(Recipe { file, build, run: run.map(told), port_env, interpreter, ..Recipe::default() })
}

/// What the interpreter is given: a file, a framework's command or a package that can be run.
fn python_program(folder: &Folder) -> Option<String> {
    if folder.has("manage.py") {
        return Some("manage.py runserver --noreload 127.0.0.1:{port}".to_owned());
    }
    if let Some(file) = folder.first(&PYTHON_PROGRAMS) {
        let runs_itself = folder.read(file).contains("__main__");
        let needs = format!("{}{}", folder.read("requirements.txt"), folder.read("pyproject.toml"));
        let module = file.trim_end_matches(".py");
        return Some(match () {
            () if !runs_itself && needs.contains("uvicorn") => {
                format!("-m uvicorn {module}:app --port {{port}}")
            }
            () if !runs_itself && needs.contains("gunicorn") => {
                format!("-m gunicorn -b 127.0.0.1:{{port}} {module}:app")
            }
            () => file.to_owned(),
        });
    }
    let packages = |below: &str| {
        let names = folder.names(below);
        names.into_iter().find(|name| folder.has(&format!("{below}/{name}/__main__.py")))
    };
    packages(".").or_else(|| packages("src")).map(|package| format!("-m {package}"))
}

fn make(folder: &Folder, program: Option<&str>) -> Option<Recipe> {
    let file = folder.first(&["Makefile", "makefile", "GNUmakefile"])?;
    let text = folder.read(file);
    let program = program.map(str::to_owned).or_else(|| made_first(&text));
    let run = program.map(|program| format!("./{program} {{port}}"));
    Some(Recipe { file, build: Some("make".to_owned()), run, ..Recipe::default() })
}

/// The file that the first rule of a Makefile is for; where that is a word such as `all`, what it needs first.
fn made_first(text: &str) -> Option<String> {
    let is_rule = |line: &&str| !line.starts_with(['\t', ' ', '.', '#', '$']) && line.contains(':');
    let (names, needs) = text.lines().filter(is_rule).find_map(|line| {
        let (names, needs) = line.split_once(':')?;
        (!needs.starts_with('=') && !names.contains('=')).then_some((names.trim(), needs.trim()))
    })?;
    let name = if NO_PROGRAMS.contains(&names) { needs.split_whitespace().next()? } else { names };
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    (plain && !NO_PROGRAMS.contains(&name)).then(|| name.to_owned())
}

fn compose(folder: &Folder, _: Option<&str>) -> Option<Recipe> {
    let file = folder.first(&["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"])?;
    let text = folder.read(file);
    let services = text.split_once("services:").map_or("", |(_, rest)| rest);
    let is_name =
        |line: &&str| line.starts_with("  ") && !line.starts_with("   ") && line.trim_end().ends_with(':');
    let name = services.lines().find(is_name).map_or("SERVICE", |line| line.trim().trim_end_matches(':'));
    let note = format!(
        "compose starts it: compare two files of it, as in whyslow compare main=compose:../before/{file}#{name} \
         pr=compose:{file}#{name}"
    );
    Some(Recipe { file, note: Some(note), ..Recipe::default() })
}

fn dockerfile(folder: &Folder, _: Option<&str>) -> Option<Recipe> {
    let file = folder.first(&["Dockerfile", "Containerfile"])?;
    let tool = if file == "Dockerfile" { "docker" } else { "podman" };
    let note = format!(
        "it runs in a container: build an image of each state ({tool} build -t shop:main .), and compare them, as in whyslow \
         compare main={tool}:shop:main pr={tool}:shop:pr"
    );
    Some(Recipe { file, note: Some(note), ..Recipe::default() })
}
