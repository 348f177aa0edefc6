package project

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fault is one thing that is wrong with a devfile, at a line if one is known.
type fault struct {
	document string
	line     int
	message  string
}

// Error returns the fault as one line.
func (f fault) Error() string {
	if f.line == 0 {
		return fmt.Sprintf("%s: %s", f.document, f.message)
	}
	return fmt.Sprintf("%s:%d: %s", f.document, f.line, f.message)
}

// fault returns a fault at the line of a path, or of the part of the path that is there.
func (d *document) fault(message string, at ...string) fault {
	return fault{document: d.name, line: find(d.node, at...).Line, message: message}
}

var (
	syntaxLine = regexp.MustCompile(`^\s*(?:yaml: )?(?:line (\d+): )?(.*)$`)
	// grammar matches the messages of the decoder's parser, which counts lines from 0. Its scanner counts from 1.
	grammar = regexp.MustCompile(`^did not find expected ('-' indicator|key|node content|',' or|<document start>)`)
	anchor  = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntaxFaults returns the faults in an error of the YAML decoder about a document.
func syntaxFaults(name string, content []byte, err error) []error {
	var faults []error
	for text := range strings.Lines(err.Error()) {
		match := syntaxLine.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		message := match[2]
		if message == "" || message == "unmarshal errors:" {
			continue
		}
		line, _ := strconv.Atoi(match[1]) // Without a number, it is 0.
		unknown := anchor.FindStringSubmatch(message)
		switch {
		case unknown != nil:
			before, _, _ := bytes.Cut(content, []byte("*"+unknown[1]))
			line = bytes.Count(before, []byte("\n")) + 1
		case grammar.MatchString(message) || line == 0 && strings.HasPrefix(text, "yaml: "):
			line++ // The decoder leaves the number out for the first line.
		}
		faults = append(faults, fault{document: name, line: line, message: message})
	}
	return faults
}

// locate returns the fault of a finding, at the line where the element of the devfile is.
func (c *collection) locate(f finding) fault {
	at := strings.Split(f.field, ".")
	for _, in := range c.documents {
		for _, above := range [][]string{nil, {"parent"}} {
			element, found := lookup(in.node, append(slices.Clone(above), f.section, f.name)...)
			if f.name != "" && found {
				line := find(element, at...).Line
				if line == 0 {
					line = element.Line
				}
				return fault{document: in.name, line: line, message: f.String()}
			}
		}
	}
	if f.section != "" {
		return c.documents[0].fault(f.String(), f.section)
	}
	for _, in := range c.documents {
		if line := in.search(f.message); line != 0 {
			return fault{document: in.name, line: line, message: f.message}
		}
	}
	return fault{document: c.documents[0].name, message: f.message}
}

// located returns an error of the library as a fault of the document.
func (d *document) located(err error) error {
	message := strings.Join(leaves(err), "; ")
	return fault{document: d.name, line: d.search(message), message: message}
}

// search returns the line that a message of the library is about, or 0. The message has names and no
// places. The line is the last with such a name, because the last of two duplicates is the wrong one.
func (d *document) search(message string) int {
	words := strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" \t\n\"',;:().", r) })
	if line := lastNamed(d.node, words, []string{"components", "commands", "projects", "starterProjects"}); line != 0 {
		return line
	}
	return lastNamed(d.node, words, nil)
}

// lastNamed returns the line of the last element that a word names, or of what another word names in this element.
// It looks at the elements of the named lists, or at all scalars.
func lastNamed(node *yaml.Node, words, lists []string) (line int) {
	if lists == nil {
		visit(node, func(scalar *yaml.Node) {
			if slices.Contains(words, scalar.Value) {
				line = max(line, scalar.Line)
			}
		})
		return line
	}
	for _, list := range lists {
		elements, found := lookup(node, list)
		if !found || elements.Kind != yaml.SequenceNode {
			continue
		}
		for _, element := range elements.Content {
			name := nameOf(element)
			if name == "" || !slices.Contains(words, name) {
				continue
			}
			line = element.Line
			visit(element, func(scalar *yaml.Node) {
				if scalar.Value != name && slices.Contains(words, scalar.Value) {
					line = scalar.Line
				}
			})
		}
	}
	return line
}

func visit(node *yaml.Node, each func(*yaml.Node)) {
	if node.Kind == yaml.ScalarNode {
		each(node)
	}
	for _, below := range node.Content { // An alias has no content, so that this ends.
		visit(below, each)
	}
}

// find returns the node of a path, or of the part of the path that is there. For a field, it is the node
// of its key. An element of a list is found by its index or its name.
func find(node *yaml.Node, at ...string) *yaml.Node {
	last := &yaml.Node{}
	for _, step := range at {
		key, value := child(node, step)
		if value == nil {
			break
		}
		last, node = key, value
	}
	return last
}

// lookup returns the value at a path.
func lookup(node *yaml.Node, at ...string) (*yaml.Node, bool) {
	for _, step := range at {
		if _, node = child(node, step); node == nil {
			return nil, false
		}
	}
	return node, true
}

func child(node *yaml.Node, step string) (key, value *yaml.Node) {
	for hops := 0; hops < 10 && (node.Kind == yaml.DocumentNode || node.Kind == yaml.AliasNode); hops++ {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		} else if len(node.Content) > 0 {
			node = node.Content[0]
		}
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if index, err := strconv.Atoi(step); err == nil && index >= 0 && index < len(node.Content) {
			return node.Content[index], node.Content[index]
		}
		for _, element := range node.Content {
			if step != "" && nameOf(element) == step {
				return element, element
			}
		}
	}
	return nil, nil
}

// nameOf returns the name or ID of an element of a list, or "".
func nameOf(element *yaml.Node) string {
	if element.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(element.Content); i += 2 {
		if key := element.Content[i].Value; key == "name" || key == "id" {
			return element.Content[i+1].Value
		}
	}
	return ""
}

// joined returns all faults as one error, in the order of the lines.
func joined(faults []error) error {
	slices.SortStableFunc(faults, func(a, b error) int {
		var left, right fault
		errors.As(a, &left)
		errors.As(b, &right)
		return cmp.Or(cmp.Compare(left.document, right.document), cmp.Compare(left.line, right.line), cmp.Compare(left.message, right.message))
	})
	return errors.Join(slices.CompactFunc(faults, func(a, b error) bool { return a.Error() == b.Error() })...)
}
