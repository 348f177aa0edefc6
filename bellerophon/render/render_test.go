package render_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	"github.com/bellerophon-io/bellerophon/charts"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestByDefaultTheOperatorWatchesAllNamespaces(t *testing.T) {
	manifests := operator(t, nil)
	want := []string{
		"ServiceAccount home/bellerophon",
		"ClusterRole bellerophon:home:bellerophon",
		"ClusterRoleBinding bellerophon:home:bellerophon",
		"Deployment home/bellerophon",
	}
	if got := names(manifests.Objects); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if got, want := names(manifests.CRDs), []string{"CustomResourceDefinition sheroes.stable.simple-bellerophon.io"}; !slices.Equal(got, want) {
		t.Errorf("CRDs %q, want %q", got, want)
	}
	if got, want := container(t, manifests), "bellerophon-io/bellerophon:v1 operator"; got != want {
		t.Errorf("image and arguments %q, want %q", got, want)
	}
	for _, want := range []string{"watches all namespaces.", "never upgrades them"} {
		if !strings.Contains(manifests.Notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, manifests.Notes)
		}
	}
}

func TestWithAWatchedNamespaceThePermissionsEndAtItsBorder(t *testing.T) {
	manifests := operator(t, map[string]any{"watchNamespace": "stable"})
	want := []string{
		"ServiceAccount home/bellerophon",
		"Role stable/bellerophon",
		"RoleBinding stable/bellerophon",
		"Deployment home/bellerophon",
	}
	if got := names(manifests.Objects); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if got, want := container(t, manifests), "bellerophon-io/bellerophon:v1 operator --namespace=stable"; got != want {
		t.Errorf("image and arguments %q, want %q", got, want)
	}
	if want := "watches namespace stable."; !strings.Contains(manifests.Notes, want) {
		t.Errorf("the notes do not say %q:\n%s", want, manifests.Notes)
	}
}

func TestTheBindingGivesTheRoleToTheServiceAccountOfThePod(t *testing.T) {
	for _, values := range []map[string]any{
		nil,
		{"watchNamespace": "stable"},
		{"serviceAccount": map[string]any{"create": false, "name": "mine"}},
	} {
		manifests := operator(t, values)
		role, binding := roleOf(t, manifests), bindingOf(t, manifests)
		if binding.RoleRef.Name != role.Name || binding.Namespace != role.Namespace {
			t.Errorf("%v: the binding %s/%s names the role %s, which is called %s/%s",
				values, binding.Namespace, binding.Name, binding.RoleRef.Name, role.Namespace, role.Name)
		}
		account := deployment(t, manifests).Spec.Template.Spec.ServiceAccountName
		want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: "home"}}
		if !slices.Equal(binding.Subjects, want) {
			t.Errorf("%v: subjects %v, want %v", values, binding.Subjects, want)
		}
	}
}

func TestTheRoleHasTheGeneratedRulesAndNoOthers(t *testing.T) {
	data, err := charts.Files.ReadFile("bellerophon-operator/files/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var generated rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(data, &generated); err != nil {
		t.Fatal(err)
	}
	for _, values := range []map[string]any{nil, {"watchNamespace": "stable"}} {
		if got, want := granted(roleOf(t, operator(t, values)).Rules), granted(generated.Rules); !maps.Equal(got, want) {
			t.Errorf("%v: rules\n%v, want\n%v", values, got, want)
		}
	}
}

func TestTheOperatorMayDoWhatItNeedsAndNothingElse(t *testing.T) {
	want := map[string]string{
		"sheroes.stable.simple-bellerophon.io":            "list watch",
		"sheroes/status.stable.simple-bellerophon.io":     "patch",
		"sheroes/finalizers.stable.simple-bellerophon.io": "update",
		"configmaps.":          "create get list patch watch",
		"services.":            "create get list patch watch",
		"statefulsets.apps":    "create get list patch watch",
		"pods.":                "list watch",
		"events.events.k8s.io": "create patch",
	}
	rules := roleOf(t, operator(t, nil)).Rules
	if got := granted(rules); !maps.Equal(got, want) {
		t.Errorf("granted\n%v, want\n%v", got, want)
	}
	for _, rule := range rules {
		for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
			if strings.Contains(strings.Join(list, ""), "*") {
				t.Errorf("the rule %v has a wildcard", rule)
			}
		}
	}
}

func TestThePodMeetsTheRestrictedPodSecurityStandard(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment(t, operator(t, nil)).Spec.Template
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	if readOnly := pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
		t.Error("the root file system is writable")
	}
}

func TestTheDeploymentSelectsItsOwnPodsWhateverLabelsTheyGet(t *testing.T) {
	manifests := operator(t, map[string]any{"podLabels": map[string]any{"team": "stable"}})
	workload := deployment(t, manifests)
	for key, want := range workload.Spec.Selector.MatchLabels {
		if got := workload.Spec.Template.Labels[key]; got != want {
			t.Errorf("label %s of the pod is %q, but the selector wants %q", key, got, want)
		}
	}
	if got := workload.Spec.Template.Labels["team"]; got != "stable" {
		t.Errorf("label team of the pod is %q, want stable", got)
	}
}

func TestADigestWinsOverTheTag(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	image := map[string]any{"repository": "registry.example/operator", "tag": "v2", "digest": digest}
	manifests := operator(t, map[string]any{"image": image})
	if got, want := container(t, manifests), "registry.example/operator@"+digest+" operator"; got != want {
		t.Errorf("image and arguments %q, want %q", got, want)
	}
}

func TestWrongValuesAreRefusedByName(t *testing.T) {
	for name, test := range map[string]struct {
		values map[string]any
		want   []string
	}{
		"unknown": {map[string]any{"replicas": 3}, []string{"additional properties 'replicas' not allowed"}},
		"type":    {map[string]any{"watchNamespace": 3}, []string{"at '/watchNamespace'", "got number, want string"}},
		"enum": {
			map[string]any{"image": map[string]any{"pullPolicy": "Sometimes"}},
			[]string{"at '/image/pullPolicy'", "'Always', 'IfNotPresent', 'Never'"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render.Operator("bellerophon", "home", test.values)
			if err == nil {
				t.Fatal("the chart rendered")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

func TestNamesThatNoClusterTakesAreRefused(t *testing.T) {
	for _, test := range [][2]string{{"", "home"}, {"Big", "home"}, {"bellerophon", ""}, {"bellerophon", "a/b"}} {
		if _, err := render.Operator(test[0], test[1], nil); err == nil {
			t.Errorf("release %q in namespace %q rendered", test[0], test[1])
		}
	}
}

func TestNamesThatLookLikeNumbersStayNames(t *testing.T) {
	manifests, err := render.Operator("1", "2", map[string]any{"watchNamespace": "3"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ServiceAccount 2/1", "Role 3/1", "RoleBinding 3/1", "Deployment 2/1"}
	if got := names(manifests.Objects); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if got, want := deployment(t, manifests).Spec.Template.Spec.ServiceAccountName, "1"; got != want {
		t.Errorf("service account %q, want %q", got, want)
	}
}

func TestAProgramThatIsTheOperatorInstallsAllButTheDeployment(t *testing.T) {
	all := operator(t, nil)
	rest := all.Without("Deployment")
	if got, want := names(rest.Objects), names(all.Objects)[:3]; !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if len(rest.CRDs) != len(all.CRDs) || len(all.Objects) != 4 {
		t.Errorf("%d of %d CRDs and all.Objects of length %d, want them unchanged", len(rest.CRDs), len(all.CRDs), len(all.Objects))
	}
}

// operator renders the chart as release bellerophon in namespace home.
func operator(t *testing.T, values map[string]any) render.Manifests {
	t.Helper()
	manifests, err := render.Operator("bellerophon", "home", values)
	if err != nil {
		t.Fatal(err)
	}
	return manifests
}

// names lists kind, namespace and name of the objects.
func names(objects []*unstructured.Unstructured) []string {
	var names []string
	for _, object := range objects {
		names = append(names, object.GetKind()+" "+strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
	}
	return names
}

// granted returns the sorted verbs of each resource.group.
func granted(rules []rbacv1.PolicyRule) map[string]string {
	verbs := map[string][]string{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				key := resource + "." + group
				verbs[key] = append(verbs[key], rule.Verbs...)
			}
		}
	}
	granted := map[string]string{}
	for key, list := range verbs {
		granted[key] = strings.Join(slices.Sorted(slices.Values(list)), " ")
	}
	return granted
}

// container returns the image and the arguments of the operator's container.
func container(t *testing.T, manifests render.Manifests) string {
	t.Helper()
	operator := deployment(t, manifests).Spec.Template.Spec.Containers[0]
	return operator.Image + " " + strings.Join(operator.Args, " ")
}

func deployment(t *testing.T, manifests render.Manifests) *appsv1.Deployment {
	t.Helper()
	return typed(t, manifests, "Deployment", &appsv1.Deployment{})
}

// roleOf returns the Role, or the ClusterRole decoded as a Role, which has the same fields.
func roleOf(t *testing.T, manifests render.Manifests) *rbacv1.Role {
	t.Helper()
	return typed(t, manifests, "Role", &rbacv1.Role{})
}

func bindingOf(t *testing.T, manifests render.Manifests) *rbacv1.RoleBinding {
	t.Helper()
	return typed(t, manifests, "RoleBinding", &rbacv1.RoleBinding{})
}

// typed decodes the one object of a kind, or of its cluster-wide counterpart. As in the API server,
// an unknown field is an error.
func typed[T any](t *testing.T, manifests render.Manifests, kind string, into *T) *T {
	t.Helper()
	for _, object := range manifests.Objects {
		if strings.TrimPrefix(object.GetKind(), "Cluster") != kind {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
			t.Fatal(err)
		}
		return into
	}
	t.Fatalf("the chart has no %s", kind)
	return nil
}
