package scaffold

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// DefaultVersion is the version of the API unless Options has one.
const DefaultVersion = "v1alpha1"

// Options describes a project. Only Module is required: the others have defaults that follow from it.
type Options struct {
	Module   string // the path of the Go module, such as example.org/team/shop
	Name     string // of the program and the chart; default the last element of Module
	Kind     string // of the custom resource; default Name in upper camel case, without -operator or -controller
	Plural   string // of Kind in URLs; default the regular English plural
	Group    string // of the API; default the rest of Module, reversed: team.example.org
	Version  string // of the API; default DefaultVersion
	Checkout string // the folder of a checkout of Bellerophon that the project uses; default: see currentVersions
}

// Project is a project whose names are valid.
type Project struct {
	Options
	Singular string
	Versions versions
}

// New completes options by their defaults, and returns an error for a name that Go or Kubernetes would refuse.
func New(options Options) (Project, error) {
	if err := checkModule(options.Module); err != nil {
		return Project{}, err
	}
	elements := strings.Split(strings.ToLower(options.Module), "/")
	if len(elements) > 1 && majorVersion.MatchString(elements[len(elements)-1]) {
		elements = elements[:len(elements)-1]
	}
	last := elements[len(elements)-1]
	if len(elements) > 1 {
		elements = elements[:len(elements)-1]
	}
	slices.Reverse(elements)
	options.Name = cmp.Or(options.Name, last)
	options.Kind = cmp.Or(options.Kind, kindOf(options.Name))
	options.Plural = cmp.Or(options.Plural, pluralOf(strings.ToLower(options.Kind)))
	options.Group = cmp.Or(options.Group, strings.Join(elements, "."))
	options.Version = cmp.Or(options.Version, DefaultVersion)
	for _, check := range []func(Options) error{checkName, checkKind, checkPlural, checkGroup, checkVersion, checkFree, checkText} {
		if err := check(options); err != nil {
			return Project{}, err
		}
	}
	versions, err := currentVersions(options.Checkout)
	if err != nil {
		return Project{}, err
	}
	return Project{Options: options, Singular: strings.ToLower(options.Kind), Versions: versions}, nil
}

var (
	majorVersion  = regexp.MustCompile(`^v[0-9]+$`)
	moduleElement = regexp.MustCompile(`^[A-Za-z0-9_~-]+(\.+[A-Za-z0-9_~-]+)*$`)
	moduleHost    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9-]+)+$`)
	upperCamel    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	apiVersion    = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
)

// checkModule checks the path of a module more strictly than the go command: a path with a domain collides with no
// package of the standard library, and gives the group of the API.
func checkModule(module string) error {
	elements := strings.Split(module, "/")
	if !moduleHost.MatchString(elements[0]) {
		return fmt.Errorf("module path %q does not begin with a domain; give one such as example.org/shop", module)
	}
	for _, element := range elements[1:] {
		if !moduleElement.MatchString(element) {
			return fmt.Errorf("module path %q: the part %q is not allowed; parts have letters, digits, and - _ ~, with dots between them", module, element)
		}
	}
	if last := elements[len(elements)-1]; last == "v0" || last == "v1" || majorVersion.MatchString(last) && last[1] == '0' {
		return fmt.Errorf("module path %q ends with %s, which the go command refuses; leave it out, or give v2 or above", module, last)
	}
	return nil
}

// longestName is the longest name of a release in Helm.
const longestName = 53

func checkName(o Options) error {
	problems := validation.IsDNS1035Label(o.Name)
	if len(o.Name) > longestName {
		problems = append(problems, fmt.Sprintf("it is longer than %d characters", longestName))
	}
	return problem("name", o.Name, "give another one with --name", problems)
}

// longestKind leaves room for "List" in the 63 characters that the API server allows.
const longestKind = 59

func checkKind(o Options) error {
	switch {
	case !upperCamel.MatchString(o.Kind):
		return problem("kind", o.Kind, "give one such as Shop with --kind", []string{"it is not upper camel case"})
	case len(o.Kind) > longestKind:
		return problem("kind", o.Kind, "give a shorter one with --kind", []string{fmt.Sprintf("it is longer than %d characters", longestKind)})
	}
	return nil
}

func checkPlural(o Options) error {
	return problem("plural", o.Plural, "give another one with --plural", validation.IsDNS1035Label(o.Plural))
}

// longestDefinition is the longest name of a resource definition whose file, with .yaml, has a name that file
// systems allow.
const longestDefinition = 250

func checkGroup(o Options) error {
	problems := validation.IsDNS1123Subdomain(o.Group)
	switch {
	case len(problems) > 0:
	case !strings.Contains(o.Group, "."):
		problems = []string{"it is not a domain with a dot"}
	case isOf(o.Group, "k8s.io") || isOf(o.Group, "kubernetes.io"):
		problems = []string{"groups of k8s.io and kubernetes.io belong to Kubernetes, and API servers refuse them without an approval"}
	case len(o.Plural)+len(".")+len(o.Group) > longestDefinition:
		problems = []string{fmt.Sprintf("with the plural %s it is longer than %d characters", o.Plural, longestDefinition)}
	}
	return problem("group", o.Group, "give a domain of your own with --group, such as example.org", problems)
}

func isOf(group, domain string) bool { return group == domain || strings.HasSuffix(group, "."+domain) }

func checkVersion(o Options) error {
	if apiVersion.MatchString(o.Version) && len(o.Version) <= validation.DNS1035LabelMaxLength {
		return nil
	}
	return problem("version", o.Version, "give one such as "+DefaultVersion+", v1beta1 or v1 with --version", []string{"it is no version of an API"})
}

// checkFree checks that a kind takes no name that its package needs for something else.
func checkFree(o Options) error {
	version := schema.GroupVersion{Group: o.Group, Version: o.Version}
	options := runtime.NewScheme()
	metav1.AddToGroupVersion(options, version) // Such as ListOptions, in each group.
	if o.Kind == "AddToScheme" || options.Recognizes(version.WithKind(o.Kind)) || options.Recognizes(version.WithKind(o.Kind+"List")) {
		return problem("kind", o.Kind, "give another one with --kind", []string{"each API group has this name already"})
	}
	return nil
}

// checkText checks that YAML reads each name as text. Without quotes, On is a boolean and 1.5 a number.
func checkText(o Options) error {
	singular := strings.ToLower(o.Kind)
	for _, each := range []struct{ what, value, written string }{
		{"name", o.Name, o.Name}, {"kind", o.Kind, o.Kind}, {"kind", o.Kind, singular}, {"plural", o.Plural, o.Plural}, {"group", o.Group, o.Group},
	} {
		if encoded, err := yaml.Marshal(each.written); err != nil || string(encoded) != each.written+"\n" {
			return problem(each.what, each.value, "give another one with --"+each.what, []string{"YAML does not read it as text"})
		}
	}
	return nil
}

// problem returns an error about a value with problems, and the way out.
func problem(what, value, wayOut string, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s %q: %s; %s", what, value, strings.Join(problems, "; "), wayOut)
}

// kindOf returns the kind that the name of a project suggests, such as KeyValue of key-value-operator.
func kindOf(name string) string {
	for _, suffix := range []string{"operator", "controller"} {
		if short, found := strings.CutSuffix(name, "-"+suffix); found && short != "" {
			name = short
		}
	}
	var kind strings.Builder
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return strings.ContainsRune("-._~", r) }) {
		kind.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return kind.String()
}

// pluralOf returns the regular plural of an English noun. Others, such as heroes, are the user's choice.
func pluralOf(noun string) string {
	ends := func(suffixes ...string) bool {
		return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(noun, suffix) })
	}
	switch {
	case ends("s", "x", "z", "ch", "sh"):
		return noun + "es"
	case ends("y") && !ends("ay", "ey", "iy", "oy", "uy"):
		return strings.TrimSuffix(noun, "y") + "ies"
	}
	return noun + "s"
}

// targetOf returns the place of a template in the project, by its slash-separated path.
func (p Project) targetOf(template string) string {
	target := strings.TrimSuffix(template, ".tmpl")
	switch folder, file := path.Split(target); folder {
	case "api/":
		return path.Join("api", p.Version, file)
	case "chart/crds/":
		return path.Join("chart/crds", p.Group+"_"+p.Plural+".yaml")
	}
	return target
}
