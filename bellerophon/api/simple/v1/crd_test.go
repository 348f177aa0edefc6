package v1_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	"go.uber.org/goleak"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	crdv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestV1IsStoredBothVersionsAreServedAndNothingConverts(t *testing.T) {
	crd := definition(t)
	want := map[string]bool{"v1": true, "v444beta989": false}
	if len(crd.Spec.Versions) != len(want) {
		t.Fatalf("%d versions, want %d", len(crd.Spec.Versions), len(want))
	}
	for _, version := range crd.Spec.Versions {
		if stored, known := want[version.Name]; !known || version.Storage != stored || !version.Served {
			t.Errorf("version %s: storage %v, served %v", version.Name, version.Storage, version.Served)
		}
	}
	// The API server sets the strategy None in a definition without a conversion.
	if crd.Spec.Conversion != nil {
		t.Errorf("conversion %v, want none", crd.Spec.Conversion)
	}
}

func TestTheNamesAreTheOnesThatUsersType(t *testing.T) {
	crd := definition(t)
	want := crdv1.CustomResourceDefinitionNames{
		Kind: "BellerophonSimple", ListKind: "BellerophonSimpleList", Plural: "sheroes", Singular: "shero",
		ShortNames: []string{"bsh"}, Categories: []string{"bellerophon"},
	}
	if !reflect.DeepEqual(crd.Spec.Names, want) {
		t.Errorf("names %+v, want %+v", crd.Spec.Names, want)
	}
	if crd.Spec.Group != "stable.simple-bellerophon.io" || crd.Spec.Scope != crdv1.NamespaceScoped {
		t.Errorf("group %s, scope %s", crd.Spec.Group, crd.Spec.Scope)
	}
}

func TestBothVersionsDifferInNothingButTheName(t *testing.T) {
	versions := definition(t).Spec.Versions
	first, second := versions[0], versions[1]
	second.Name, second.Storage = first.Name, first.Storage
	if !reflect.DeepEqual(first, second) {
		t.Errorf("the versions differ, so a conversion would change objects:\n%+v\n%+v", first, second)
	}
}

func TestUsersSeeAndScaleServers(t *testing.T) {
	version := definition(t).Spec.Versions[0]
	var columns []string
	for _, column := range version.AdditionalPrinterColumns {
		columns = append(columns, column.Name+" "+column.JSONPath)
	}
	want := []string{
		"Desired .spec.replicas", "Ready .status.readyReplicas",
		"Horse .spec.winged_horse_name", "Age .metadata.creationTimestamp",
	}
	if !slices.Equal(columns, want) {
		t.Errorf("columns %q, want %q", columns, want)
	}
	if version.Subresources == nil || version.Subresources.Status == nil || version.Subresources.Scale == nil {
		t.Fatalf("subresources %+v, want status and scale", version.Subresources)
	}
	selector := ".status.selector"
	scale := crdv1.CustomResourceSubresourceScale{
		SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector,
	}
	if got := *version.Subresources.Scale; !reflect.DeepEqual(got, scale) {
		t.Errorf("scale %+v, want %+v", got, scale)
	}
}

func TestTheAPIServerTakesTheDefinition(t *testing.T) {
	// The server compiles every rule and estimates its cost here.
	if problems := crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal(t)); len(problems) > 0 {
		t.Error(problems.ToAggregate())
	}
}

func TestManifestsOfTheFirstVersionApplyAsTheyAre(t *testing.T) {
	for name, test := range map[string]struct{ manifest, want string }{
		"the first one": {
			manifest: `{metadata: {name: example-bellerophon-hero1}, spec: {winged_horse_name: pegasusio, replicas: 7}}`,
			want:     `{image: "bellerophon-io/bellerophon-server:v1", winged_horse_name: pegasusio, replicas: 7}`,
		},
		"no specification": {
			manifest: `{metadata: {name: example}}`,
			want:     `{image: "bellerophon-io/bellerophon-server:v1", winged_horse_name: pegasus, replicas: 1}`,
		},
		"the limits": {
			manifest: `{metadata: {name: ` + strings.Repeat("a", 52) + `}, spec: {winged_horse_name: ` + strings.Repeat("é", 253) +
				`, image: ` + strings.Repeat("i", 1024) + `, replicas: 1000}}`,
			want: `{winged_horse_name: ` + strings.Repeat("é", 253) + `, image: ` + strings.Repeat("i", 1024) + `, replicas: 1000}`,
		},
		"scaled to zero": {
			manifest: `{metadata: {name: a-1}, spec: {winged_horse_name: p, image: i, replicas: 0}}`,
			want:     `{winged_horse_name: p, image: i, replicas: 0}`,
		},
	} {
		for _, version := range []string{"v1", "v444beta989"} {
			t.Run(name+" in "+version, func(t *testing.T) {
				object, problems := apply(t, version, test.manifest)
				if len(problems) > 0 {
					t.Errorf("refused: %s", problems)
				}
				if want := parse(t, test.want); !reflect.DeepEqual(object["spec"], want) {
					t.Errorf("spec %v, want %v", object["spec"], want)
				}
			})
		}
	}
}

func TestANewObjectSaysThatItWaitsForTheOperator(t *testing.T) {
	want := parse(t, `{replicas: 0, readyReplicas: 0, conditions: [{type: Ready, status: Unknown, reason: Pending, message: waiting for the operator,
		lastTransitionTime: "1970-01-01T00:00:00Z"}]}`)
	for _, version := range []string{"v1", "v444beta989"} {
		object, problems := apply(t, version, `{metadata: {name: example}}`)
		if len(problems) > 0 {
			t.Errorf("%s: refused: %s", version, problems)
		}
		if !reflect.DeepEqual(object["status"], want) {
			t.Errorf("%s: status %v, want %v", version, object["status"], want)
		}
	}
}

func TestEachLimitSaysWhatIsAllowed(t *testing.T) {
	const label = "metadata.name must consist of a-z, 0-9 and '-', start with a letter"
	for name, test := range map[string]struct{ manifest, field, want string }{
		"name too long":                 {`{metadata: {name: ` + strings.Repeat("a", 53) + `}}`, "<nil>", "metadata.name must have at most 52 characters"},
		"name with a dot":               {`{metadata: {name: a.b}}`, "<nil>", label},
		"name with a digit first":       {`{metadata: {name: 1a}}`, "<nil>", label},
		"no horse":                      {`{metadata: {name: a}, spec: {winged_horse_name: ""}}`, "spec.winged_horse_name", "winged_horse_name must have 1 to 253 characters"},
		"long horse":                    {`{metadata: {name: a}, spec: {winged_horse_name: ` + strings.Repeat("p", 254) + `}}`, "spec.winged_horse_name", "winged_horse_name must have 1 to 253 characters"},
		"no image":                      {`{metadata: {name: a}, spec: {image: ""}}`, "spec.image", "image must have 1 to 1024 characters"},
		"long image":                    {`{metadata: {name: a}, spec: {image: ` + strings.Repeat("i", 1025) + `}}`, "spec.image", "image must have 1 to 1024 characters"},
		"image with a space of Unicode": {`{metadata: {name: a}, spec: {image: "\u00a0server:v1"}}`, "spec.image", "image must not contain white space"},
		"image with a vertical tab":     {`{metadata: {name: a}, spec: {image: "\u000bserver:v1"}}`, "spec.image", "image must not contain white space"},
		"image with white space":        {`{metadata: {name: a}, spec: {image: "server :v1"}}`, "spec.image", "image must not contain white space"},
		"too few replicas":              {`{metadata: {name: a}, spec: {replicas: -1}}`, "spec.replicas", "replicas must be between 0 and 1000"},
		"too many replicas":             {`{metadata: {name: a}, spec: {replicas: 1001}}`, "spec.replicas", "replicas must be between 0 and 1000"},
	} {
		for _, version := range []string{"v1", "v444beta989"} {
			t.Run(name+" in "+version, func(t *testing.T) {
				_, problems := apply(t, version, test.manifest)
				if len(problems) != 1 || !strings.HasPrefix(problems[0], test.field+": ") || !strings.Contains(problems[0], ": "+test.want) {
					t.Errorf("problems %q, want one about %s that says %q", problems, test.field, test.want)
				}
			})
		}
	}
}

// definition returns the generated definition as the chart installs it.
func definition(t *testing.T) *crdv1.CustomResourceDefinition {
	t.Helper()
	manifests, err := render.Operator("bellerophon", "home", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range manifests.CRDs {
		if object.GetName() != "sheroes.stable.simple-bellerophon.io" {
			continue
		}
		crd := &crdv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, crd, true); err != nil {
			t.Fatal(err)
		}
		return crd
	}
	t.Fatal("the chart has no definition of sheroes")
	return nil
}

// internal returns the definition in the API server's internal form, with the server's defaults.
func internal(t *testing.T) *apiextensions.CustomResourceDefinition {
	t.Helper()
	crd := definition(t)
	crdv1.SetDefaults_CustomResourceDefinition(crd)
	crdv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.StoredVersions = []string{"v1"}
	converted := &apiextensions.CustomResourceDefinition{}
	if err := crdv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, converted, nil); err != nil {
		t.Fatal(err)
	}
	return converted
}

// apply sets the defaults in a manifest and validates the manifest, with the API server's own code.
func apply(t *testing.T, version, manifest string) (object map[string]any, problems []string) {
	t.Helper()
	crd := internal(t)
	crdSchema, err := apiextensions.GetSchemaForVersion(crd, version)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(crdSchema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	object = parse(t, manifest)
	object["apiVersion"], object["kind"] = crd.Spec.Group+"/"+version, crd.Spec.Names.Kind
	defaulting.Default(object, structural)

	validator, _, err := validation.NewSchemaValidator(crdSchema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	errs := validation.ValidateCustomResource(nil, object, validator)
	rules := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	broken, _ := rules.Validate(t.Context(), nil, structural, object, nil, celconfig.RuntimeCELCostBudget)
	for _, err := range append(errs, broken...) {
		problems = append(problems, err.Error())
	}
	return object, problems
}

func parse(t *testing.T, manifest string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}
