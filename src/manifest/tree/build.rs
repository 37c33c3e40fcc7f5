//! From the parser's events to the tree, one document at a time.
//!
//! A file is cut at its document markers before it is parsed: a marker in the first column ends a
//! document whatever stands around it (YAML 1.2, 9.1.2), so one that is broken ends there too.

use std::collections::BTreeMap;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::{DEPTH_MAX, DOCUMENTS_MAX, Document, Entry, Flaw, NODES_MAX, Node, Place};
use super::{Scalar, Value};
use crate::manifest::rules::Rule;

/// What an anchor stands for.
struct Anchor {
    node: Rc<Node>,
    size: usize,
    height: usize,
}

/// A list or map that is not finished yet.
struct Open {
    place: Place,
    anchor: usize,
    size: usize,
    height: usize,
    content: Content,
}

enum Content {
    List(Vec<Rc<Node>>),
    Map { entries: Vec<Entry>, key: Option<(String, Place)>, lines: BTreeMap<String, u32> },
}

/// One document being built.
struct Builder {
    file: Rc<str>,
    line_offset: u32,
    nodes: usize,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Anchor>,
    root: Option<Rc<Node>>,
    flaws: Vec<Flaw>,
}

/// Part of a file that holds one document, seldom more.
struct Chunk<'a> {
    text: &'a str,
    line_offset: u32,
}

/// Reads all documents of a file. Empty documents are left out.
pub(in crate::manifest) fn parse_file(file: &Rc<str>, text: &str) -> Vec<Document> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    for chunk in chunks(text) {
        parse_chunk(file, &chunk, &mut documents);
        if documents.len() > DOCUMENTS_MAX {
            documents.truncate(DOCUMENTS_MAX);
            documents.push(too_many(file, &chunk));
            break;
        }
    }
    documents
}

fn too_many(file: &Rc<str>, chunk: &Chunk<'_>) -> Document {
    let place = Place { file: Rc::clone(file), line: chunk.line_offset + 1, column: 1 };
    let flaw = Flaw {
        rule: Rule::TooManyDocuments,
        place: place.clone(),
        message: format!("the file has more than {DOCUMENTS_MAX} documents; the rest is not read"),
        way_out: "split it into several files".to_owned(),
    };
    Document { place, root: None, flaws: vec![flaw], text: String::new() }
}

/// Cuts a file where a line starts with `---` or after one that starts with `...`.
fn chunks(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut start, mut start_line) = (0, 0);
    let (mut position, mut line) = (0, 0);
    for whole in text.split_inclusive('\n') {
        let end = position + whole.len();
        if is_marker(whole, "---") && !only_directives(&text[start..position]) {
            chunks.push(Chunk { text: &text[start..position], line_offset: start_line });
            (start, start_line) = (position, line);
        } else if is_marker(whole, "...") {
            chunks.push(Chunk { text: &text[start..end], line_offset: start_line });
            (start, start_line) = (end, line + 1);
        }
        position = end;
        line += 1;
    }
    chunks.push(Chunk { text: &text[start..], line_offset: start_line });
    chunks
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Whether nothing but directives and comments stands there, which belong to what follows.
fn only_directives(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with(['%', '#']))
}

fn parse_chunk(file: &Rc<str>, chunk: &Chunk<'_>, documents: &mut Vec<Document>) {
    let mut parser = Parser::new_from_str(chunk.text);
    let mut builder = Builder::new(file, chunk);
    let mut place = Place { file: Rc::clone(file), line: chunk.line_offset + 1, column: 1 };
    loop {
        let flaw = match parser.next_event() {
            None | Some(Ok((Event::StreamEnd, _))) => return,
            Some(Err(error)) => Err(builder.syntax(&error)),
            Some(Ok((Event::DocumentStart(_), _))) => {
                builder = Builder::new(file, chunk);
                Ok(())
            }
            Some(Ok((Event::DocumentEnd, _))) => {
                if let Some(document) = builder.finish(chunk.text) {
                    documents.push(document);
                }
                builder = Builder::new(file, chunk);
                if documents.len() > DOCUMENTS_MAX {
                    return;
                }
                Ok(())
            }
            Some(Ok((event, span))) => {
                if builder.nodes == 0 {
                    place = builder.place(span.start);
                }
                builder.event(event, span)
            }
        };
        if let Err(flaw) = flaw {
            let text = chunk.text.to_owned();
            let flaws = builder.flaws.into_iter().chain([*flaw]).collect();
            documents.push(Document { place, root: None, flaws, text });
            return;
        }
    }
}

impl Builder {
    fn new(file: &Rc<str>, chunk: &Chunk<'_>) -> Self {
        Self {
            file: Rc::clone(file),
            line_offset: chunk.line_offset,
            nodes: 0,
            open: Vec::new(),
            anchors: BTreeMap::new(),
            root: None,
            flaws: Vec::new(),
        }
    }

    fn finish(&mut self, text: &str) -> Option<Document> {
        let root = self.root.take()?;
        let flaws = std::mem::take(&mut self.flaws);
        if root.is_null() && flaws.is_empty() {
            return None;
        }
        Some(Document { place: root.place.clone(), root: Some(root), flaws, text: text.to_owned() })
    }

    fn place(&self, marker: Marker) -> Place {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Place {
            file: Rc::clone(&self.file),
            line: count(marker.line()).saturating_add(self.line_offset),
            column: count(marker.col()).saturating_add(1),
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Box<Flaw>> {
        let place = self.place(span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd => Ok(()),
            Event::DocumentStart(_) | Event::DocumentEnd => Ok(()),
            Event::Alias(anchor) => self.alias(anchor, place),
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let scalar = match tag.as_deref() {
                    None => Scalar::new(text.into_owned(), plain),
                    Some(tag) => tagged(&text, tag).unwrap_or_else(|| {
                        self.flaws.push(unknown_tag(tag, place.clone()));
                        Scalar::new(text.into_owned(), false)
                    }),
                };
                let node = Rc::new(Node { place, value: Value::Scalar(scalar) });
                self.count(1)?;
                self.add(node, anchor, 1, 0)
            }
            Event::SequenceStart(anchor, tag) => {
                self.start(place, anchor, tag.as_deref(), "seq", Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                let content =
                    Content::Map { entries: Vec::new(), key: None, lines: BTreeMap::new() };
                self.start(place, anchor, tag.as_deref(), "map", content)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { place, anchor, size, height, content }) = self.open.pop() else {
                    return Ok(());
                };
                let value = match content {
                    Content::List(items) => Value::List(items),
                    Content::Map { entries, .. } => Value::Map(entries),
                };
                self.add(Rc::new(Node { place, value }), anchor, size, height + 1)
            }
        }
    }

    fn start(
        &mut self,
        place: Place,
        anchor: usize,
        tag: Option<&Tag>,
        wanted: &str,
        content: Content,
    ) -> Result<(), Box<Flaw>> {
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema() || tag.suffix != wanted) {
            self.flaws.push(unknown_tag(tag, place.clone()));
        }
        if let Some(Open { content: Content::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(key_not_text(place));
        }
        self.count(1)?;
        self.open.push(Open { place, anchor, size: 1, height: 0, content });
        self.check_depth(0)
    }

    /// Adds a finished node to the list or map it is in.
    fn add(
        &mut self,
        node: Rc<Node>,
        anchor: usize,
        size: usize,
        height: usize,
    ) -> Result<(), Box<Flaw>> {
        if anchor > 0 {
            self.anchors.insert(anchor, Anchor { node: Rc::clone(&node), size, height });
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        parent.size += size;
        parent.height = parent.height.max(height);
        match &mut parent.content {
            Content::List(items) => items.push(node),
            Content::Map { entries, key, lines } => match key.take() {
                Some((key, key_place)) => entries.push(Entry { key, key_place, value: node }),
                None => {
                    *key = Some(new_key(&node, lines, &mut self.flaws)?);
                }
            },
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, place: Place) -> Result<(), Box<Flaw>> {
        let Some(Anchor { node, size, height }) = self.anchors.get(&id) else {
            return Err(Box::new(Flaw {
                rule: Rule::Syntax,
                place,
                message: "the alias names an anchor that is not finished or in another document"
                    .to_owned(),
                way_out: "write the value out".to_owned(),
            }));
        };
        // Shallow: only the place is the alias's own, so that findings point to where it is used.
        let node = Rc::new(Node { place: place.clone(), value: node.value.clone() });
        let (size, height) = (*size, *height);
        self.count(size)?;
        self.check_depth(height)?;
        self.add(node, 0, size, height)
    }

    fn count(&mut self, nodes: usize) -> Result<(), Box<Flaw>> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        Err(Box::new(Flaw {
            rule: Rule::TooManyNodes,
            place: self.here(),
            message: format!(
                "with its aliases written out the document has more than {NODES_MAX} values"
            ),
            way_out: "write fewer aliases, or split the document".to_owned(),
        }))
    }

    fn check_depth(&self, height: usize) -> Result<(), Box<Flaw>> {
        if self.open.len() + height <= DEPTH_MAX {
            return Ok(());
        }
        Err(Box::new(Flaw {
            rule: Rule::TooDeep,
            place: self.here(),
            message: format!("lists and maps are nested more than {DEPTH_MAX} deep"),
            way_out: "write it flatter; no manifest of ours needs this".to_owned(),
        }))
    }

    /// Returns the place of the innermost open list or map.
    fn here(&self) -> Place {
        match self.open.last() {
            Some(open) => open.place.clone(),
            None => Place { file: Rc::clone(&self.file), line: self.line_offset + 1, column: 1 },
        }
    }

    fn syntax(&self, error: &ScanError) -> Box<Flaw> {
        Box::new(Flaw {
            rule: Rule::Syntax,
            place: self.place(*error.marker()),
            message: format!("this is not YAML: {}", error.info()),
            way_out: "correct the line, or the one before it; indent with spaces, and quote text \
                      that starts with a special character"
                .to_owned(),
        })
    }
}

/// Takes a node as the key of a map and notes when the map has it already.
fn new_key(
    node: &Rc<Node>,
    lines: &mut BTreeMap<String, u32>,
    flaws: &mut Vec<Flaw>,
) -> Result<(String, Place), Box<Flaw>> {
    let place = node.place.clone();
    let Value::Scalar(scalar) = &node.value else {
        return Err(key_not_text(place));
    };
    let key = scalar.text.clone();
    if key == "<<" && scalar.plain {
        flaws.push(Flaw {
            rule: Rule::UnsupportedYaml,
            place: place.clone(),
            message: "merge keys (<<) are not part of YAML 1.2 and not read".to_owned(),
            way_out: "write the keys out, or put what is shared into a base".to_owned(),
        });
    } else if let Some(line) = lines.get(&key) {
        flaws.push(Flaw {
            rule: Rule::DuplicateKey,
            place: place.clone(),
            message: format!("the key {key:?} is already there, in line {line}"),
            way_out: "keep one of the two; tools disagree on which one counts".to_owned(),
        });
    } else {
        lines.insert(key.clone(), place.line);
    }
    Ok((key, place))
}

fn key_not_text(place: Place) -> Box<Flaw> {
    Box::new(Flaw {
        rule: Rule::UnsupportedYaml,
        place,
        message: "a list or map is used as a key".to_owned(),
        way_out: "use text as key; quote it when it starts with [ or {".to_owned(),
    })
}

/// Reads a scalar with one of YAML's own tags, such as `!!str 1.10`.
fn tagged(text: &str, tag: &Tag) -> Option<Scalar> {
    let text = text.to_owned();
    if tag.handle.is_empty() && tag.suffix == "!" {
        return Some(Scalar::new(text, false));
    }
    if !tag.is_yaml_core_schema() {
        return None;
    }
    match tag.suffix.as_str() {
        "str" => Some(Scalar::new(text, false)),
        "int" | "float" | "bool" | "null" => Some(Scalar::new(text, true)),
        _ => None,
    }
}

fn unknown_tag(tag: &Tag, place: Place) -> Flaw {
    Flaw {
        rule: Rule::UnsupportedYaml,
        place,
        message: format!("the tag {tag} is not read"),
        way_out: "remove the tag; quotes make text of anything".to_owned(),
    }
}
