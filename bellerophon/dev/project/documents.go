package project

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	devfilev2 "github.com/devfile/library/v2/pkg/devfile/parser/data/v2"
	"go.yaml.in/yaml/v3"
)

// maxDocument is the largest size of a devfile or manifest. A ConfigMap has no room for more.
const maxDocument = 1 << 20

// maxChain bounds how many devfiles include each other.
const maxChain = 10

// document is a devfile, the one of the project or one that it refers to.
type document struct {
	name    string     // the path in the project
	node    *yaml.Node // with the lines
	version version
	devfile *devfilev2.DevfileV2
	parent  *document
}

// collection reads the devfile of a project with its parents and manifests.
type collection struct {
	root      *os.Root
	documents []*document // the devfile of the project is the first
	faults    []error
}

// add reads the devfile of a name and all files that it refers to. chain names the devfiles that led here. The
// result is nil if something is wrong.
func (c *collection) add(name string, chain []string) *document {
	content, err := c.read(name)
	if err != nil {
		c.faults = append(c.faults, fault{document: name, message: err.Error()})
		return nil
	}
	added := &document{name: name, node: &yaml.Node{}}
	// The second decoder has the lines, and the first one the better messages.
	fields, err := toJSON(content)
	if err == nil {
		err = yaml.Unmarshal(content, added.node)
	}
	if err != nil {
		c.faults = append(c.faults, syntaxFaults(name, content, err)...)
		return nil
	}
	c.documents = append(c.documents, added)
	has, wrong := versionOf(fields)
	if wrong == nil {
		before := len(c.faults)
		c.references(added, fields, append(slices.Clone(chain), name))
		if len(c.faults) > before {
			return nil
		}
		added.devfile, wrong = decode(fields)
	}
	for _, v := range wrong {
		c.faults = append(c.faults, added.fault(v.String(), v.path...))
	}
	added.version = has
	if above := added.parent; above != nil && has.less(above.version) {
		c.wrong(added, []string{"schemaVersion"}, "%s is older than %s in %s: raise it", has, above.version, above.name)
	}
	return added
}

// references checks all references of a document to something outside of it, and follows them.
func (c *collection) references(from *document, fields map[string]any, chain []string) {
	if parent, is := fields["parent"].(map[string]any); is {
		from.parent = c.include(from, parent, chain, "parent")
		c.components(from, parent, "parent")
	}
	c.components(from, fields)
}

// components puts the manifests that components refer to into the document.
func (c *collection) components(from *document, fields map[string]any, at ...string) {
	components, _ := fields["components"].([]any)
	for index, component := range components {
		component, _ := component.(map[string]any)
		for _, kind := range []string{"kubernetes", "openshift"} {
			if manifest, is := component[kind].(map[string]any); is {
				c.manifest(from, manifest, append(slices.Clone(at), "components", strconv.Itoa(index), kind, "uri")...)
			}
		}
	}
}

// include reads the devfile that a parent refers to.
func (c *collection) include(from *document, reference map[string]any, chain []string, at ...string) *document {
	for _, field := range []string{"id", "registryUrl", "kubernetes"} {
		if _, is := reference[field]; is {
			c.wrong(from, append(slices.Clone(at), field), "bellerophon dev does not get devfiles from a registry or cluster; copy the devfile into the project, and name it by uri")
			return nil
		}
	}
	at = append(slices.Clone(at), "uri")
	uri, is := reference["uri"].(string)
	if !is {
		c.wrong(from, at, "the uri of a devfile in the project is missing")
		return nil
	}
	name, found := c.local(from, uri, at)
	if !found {
		return nil
	}
	if slices.Contains(chain, name) {
		c.wrong(from, at, "%s includes itself: %s; remove one of the references", name, strings.Join(append(slices.Clone(chain), name), " → "))
		return nil
	}
	if len(chain) == maxChain {
		c.wrong(from, at, "more than %d devfiles follow each other", maxChain)
		return nil
	}
	return c.add(name, chain)
}

// manifest puts the file that a kubernetes component refers to in place of the reference.
func (c *collection) manifest(from *document, component map[string]any, at ...string) {
	uri, is := component["uri"].(string)
	if !is {
		return
	}
	name, found := c.local(from, uri, at)
	if !found {
		return
	}
	content, err := c.read(name)
	if err != nil {
		c.wrong(from, at, "%s: %v", name, err)
		return
	}
	delete(component, "uri")
	component["inlined"] = string(content)
}

func (c *collection) wrong(in *document, at []string, format string, args ...any) {
	c.faults = append(c.faults, in.fault(violation{path: at, message: fmt.Sprintf(format, args...)}.String(), at...))
}

// local returns the path of the file that a reference in a document means, if the project has it.
func (c *collection) local(from *document, reference string, at []string) (name string, found bool) {
	parsed, err := url.Parse(reference)
	switch {
	case err != nil || path.IsAbs(reference) || strings.Contains(reference, `\`):
		c.wrong(from, at, "%q is not a relative path with slashes", reference)
		return "", false
	case parsed.Scheme != "" || parsed.Host != "":
		c.wrong(from, at, "bellerophon dev does not download %s; copy the file into the project, and name it by its relative path", reference)
		return "", false
	}
	name = path.Join(path.Dir(from.name), reference)
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		c.wrong(from, at, "%s leads out of the project; copy the file into the project", reference)
		return "", false
	}
	if _, err := c.root.Stat(name); err != nil {
		c.wrong(from, at, "%v", outside(err))
		return "", false
	}
	return name, true
}

// read returns the content of a file of the project.
func (c *collection) read(name string) ([]byte, error) {
	info, err := c.root.Stat(name)
	switch {
	case err != nil:
		return nil, outside(err)
	case !info.Mode().IsRegular(): // To open a pipe would block.
		return nil, errors.New("is not a regular file")
	case info.Size() > maxDocument:
		return nil, fmt.Errorf("has %d bytes, and at most %d are allowed", info.Size(), maxDocument)
	}
	file, err := c.root.Open(name)
	if err != nil {
		return nil, outside(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err == nil && len(content) > maxDocument {
		err = fmt.Errorf("has more than %d bytes", maxDocument)
	}
	return content, err
}

// outside makes the error of an os.Root readable.
func outside(err error) error {
	var problem *fs.PathError
	if !errors.As(err, &problem) {
		return err
	}
	if strings.Contains(problem.Err.Error(), "escapes") {
		return fmt.Errorf("%s leads out of the project, perhaps by a symbolic link; copy the file into the project", problem.Path)
	}
	return fmt.Errorf("read %s: %w", problem.Path, problem.Err)
}
