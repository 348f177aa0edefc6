package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/devfile/api/v2/pkg/validation/variables"
	devfilev2 "github.com/devfile/library/v2/pkg/devfile/parser/data/v2"
	"sigs.k8s.io/yaml"
)

// ErrNoDevfile is in the error of Read for a directory without a devfile.
var ErrNoDevfile = errors.New("no devfile")

// names are the names of a devfile, in the order of the library.
var names = []string{"devfile.yaml", ".devfile.yaml", "devfile.yml", ".devfile.yml"}

// Read returns the devfile of a directory as YAML: merged with its parents, with the content
// of its manifests, and with the values of its variables. Parse accepts the result. Read reads only
// files of the directory, and uses no network. Errors have one line for each thing that is wrong, with
// the file and the line.
func Read(directory string) (flattened []byte, err error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, fmt.Errorf("open the project: %w", err)
	}
	defer root.Close()
	name, err := devfile(root)
	if err != nil {
		return nil, err
	}
	read := &collection{root: root}
	main := read.add(name, nil)
	if len(read.faults) > 0 {
		return nil, joined(read.faults)
	}
	content, err := main.flatten()
	if err != nil {
		return nil, err
	}
	flat := devfilev2.DevfileV2{}
	flat.DevfileHeader, flat.DevWorkspaceTemplateSpecContent = main.devfile.DevfileHeader, *content
	for name, value := range content.Variables {
		if strings.Contains(value, "{{") { // The library would put values into values, as often as there are uses.
			found := finding{section: "variables", name: name, message: "the value may not use a variable: write the text itself"}
			read.faults = append(read.faults, read.locate(found))
		}
	}
	if len(read.faults) > 0 {
		return nil, joined(read.faults)
	}
	variables.ValidateAndReplaceGlobalVariable(&flat.DevWorkspaceTemplateSpec) // Parse warns of unknown variables.
	if flattened, err = yaml.Marshal(flat); err != nil {
		return nil, fmt.Errorf("encode the flattened devfile: %w", err)
	}
	if len(flattened) > maxDocument {
		return nil, fault{document: name, message: fmt.Sprintf("the devfile has %d bytes with its parents and manifests, and at most %d are allowed", len(flattened), maxDocument)}
	}
	_, findings := parse(flattened)
	for _, found := range findings {
		read.faults = append(read.faults, read.locate(found))
	}
	if len(read.faults) > 0 {
		return nil, joined(read.faults)
	}
	return flattened, nil
}

// devfile returns the name of the devfile in a directory.
func devfile(root *os.Root) (string, error) {
	for _, name := range names {
		_, err := root.Stat(name)
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fault{document: name, message: outside(err).Error()}
		}
	}
	return "", fmt.Errorf("%w in %s: looked for %s; add one, or name the directory of the project",
		ErrNoDevfile, root.Name(), strings.Join(names, ", "))
}
