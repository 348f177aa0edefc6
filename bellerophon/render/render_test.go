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
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"PodDisruptionBudget home/bellerophon",
		"ServiceAccount home/bellerophon",
		"ClusterRole bellerophon:home:bellerophon",
		"ClusterRole bellerophon:home:bellerophon:reviews",
		"ClusterRoleBinding bellerophon:home:bellerophon",
		"ClusterRoleBinding bellerophon:home:bellerophon:reviews",
		"Role home/bellerophon-replicas",
		"RoleBinding home/bellerophon-replicas",
		"Deployment home/bellerophon",
	}
	if got := names(manifests.Objects); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if got, want := names(manifests.CRDs), []string{"CustomResourceDefinition sheroes.stable.simple-bellerophon.io"}; !slices.Equal(got, want) {
		t.Errorf("CRDs %q, want %q", got, want)
	}
	if got, want := container(t, manifests), "bellerophon-io/bellerophon:v1 operator --lease=home/bellerophon --protection=protected"; got != want {
		t.Errorf("image and arguments %q, want %q", got, want)
	}
	for _, want := range []string{"watches all namespaces.", "never upgrades them"} {
		if !strings.Contains(manifests.Notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, manifests.Notes)
		}
	}
}

func TestWithAWatchedNamespaceThePermissionsEndAtItsBorder(t *testing.T) {
	manifests := operator(t, map[string]any{"watchNamespace": "stable", "metrics": unprotected})
	want := []string{
		"PodDisruptionBudget home/bellerophon",
		"ServiceAccount home/bellerophon",
		"Role stable/bellerophon",
		"Role home/bellerophon-replicas",
		"RoleBinding stable/bellerophon",
		"RoleBinding home/bellerophon-replicas",
		"Deployment home/bellerophon",
	}
	if got := names(manifests.Objects); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if got, want := container(t, manifests), "bellerophon-io/bellerophon:v1 operator --namespace=stable --lease=home/bellerophon --protection=unprotected"; got != want {
		t.Errorf("image and arguments %q, want %q", got, want)
	}
	if want := "watches namespace stable."; !strings.Contains(manifests.Notes, want) {
		t.Errorf("the notes do not say %q:\n%s", want, manifests.Notes)
	}
}

func TestWebhooksAreWiredAndMayWriteOnlyWhatIsTheirs(t *testing.T) {
	for secret, want := range map[string]string{
		"":     "operator --lease=home/bellerophon --protection=protected --webhook-service=home/bellerophon-webhooks --webhook-cluster-role=bellerophon:home:bellerophon-webhooks --webhook-failure-policy=Ignore",
		"mine": "operator --lease=home/bellerophon --protection=protected --webhook-service=home/bellerophon-webhooks --webhook-cluster-role=bellerophon:home:bellerophon-webhooks --webhook-failure-policy=Ignore --webhook-certificates=home/mine",
	} {
		manifests := operator(t, map[string]any{"webhooks": map[string]any{"enabled": true, "failurePolicy": "Ignore", "certificateSecret": secret}})
		if got := container(t, manifests); got != "bellerophon-io/bellerophon:v1 "+want {
			t.Errorf("image and arguments %q, want %q", got, want)
		}
		found := names(manifests.Objects)
		for _, wanted := range []string{"Service home/bellerophon-webhooks", "ValidatingWebhookConfiguration bellerophon-webhooks.home", "ClusterRole bellerophon:home:bellerophon-webhooks", "Role home/bellerophon-webhooks"} {
			if !slices.Contains(found, wanted) {
				t.Errorf("the chart has no %s: %q", wanted, found)
			}
		}
		if own := slices.Contains(found, "Secret home/bellerophon-webhooks-certificates"); own != (secret == "") {
			t.Errorf("with the Secret %q the chart has %q", secret, found)
		}
		for _, object := range manifests.Objects {
			if !strings.HasSuffix(object.GetName(), "-webhooks") || !strings.HasSuffix(object.GetKind(), "Role") {
				continue
			}
			var role rbacv1.Role
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &role, true); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				if len(rule.ResourceNames) != 1 && !slices.Equal(rule.Verbs, []string{"create"}) {
					t.Errorf("the rule %v names no object", rule)
				}
			}
		}
		pod := deployment(t, manifests).Spec.Template.Spec.Containers[0]
		if probe := pod.ReadinessProbe.HTTPGet; probe.Scheme != "HTTPS" || probe.Port.StrVal != "webhooks" || pod.Ports[2].Name != "webhooks" {
			t.Errorf("the readiness probe is %v, and the ports are %v", probe, pod.Ports)
		}
	}
}

func TestTheBindingGivesTheRoleToTheServiceAccountOfThePod(t *testing.T) {
	for _, values := range []map[string]any{
		nil,
		{"watchNamespace": "stable", "metrics": unprotected},
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
	for _, values := range []map[string]any{nil, {"watchNamespace": "stable", "metrics": unprotected}} {
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

func TestProtectedMetricsComeWithReviewsAndWithTheCertificateOfASecret(t *testing.T) {
	manifests := operator(t, map[string]any{"watchNamespace": "stable", "metrics": map[string]any{"certificateSecret": "metrics-tls"}})
	got := names(manifests.Objects)
	for _, want := range []string{"ClusterRole bellerophon:home:bellerophon:reviews", "ClusterRoleBinding bellerophon:home:bellerophon:reviews", "Role stable/bellerophon"} {
		if !slices.Contains(got, want) {
			t.Errorf("objects %q, want %s among them", got, want)
		}
	}
	for _, object := range manifests.Objects {
		switch object.GetKind() {
		case "ClusterRole":
			role := decoded(t, object, &rbacv1.ClusterRole{})
			want := map[string]string{"tokenreviews.authentication.k8s.io": "create", "subjectaccessreviews.authorization.k8s.io": "create"}
			if got := granted(role.Rules); !maps.Equal(got, want) {
				t.Errorf("granted %v, want %v", got, want)
			}
		case "ClusterRoleBinding":
			binding := decoded(t, object, &rbacv1.ClusterRoleBinding{})
			want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "bellerophon", Namespace: "home"}}
			if binding.RoleRef.Name != binding.Name || !slices.Equal(binding.Subjects, want) {
				t.Errorf("the binding gives %v to %v, want %v", binding.RoleRef, binding.Subjects, want)
			}
		}
	}
	pod := deployment(t, manifests).Spec.Template.Spec
	container, volume := pod.Containers[0], pod.Volumes[0]
	mount := container.VolumeMounts[0]
	for _, want := range []string{"--tls-certificate=" + mount.MountPath + "/tls.crt", "--tls-key=" + mount.MountPath + "/tls.key", "--protection=protected"} {
		if !slices.Contains(container.Args, want) {
			t.Errorf("arguments %q, want %s among them", container.Args, want)
		}
	}
	if volume.Name != mount.Name || volume.Secret.SecretName != "metrics-tls" {
		t.Errorf("the volume %s has the Secret %v, want metrics-tls at %s", volume.Name, volume.Secret, mount.Name)
	}
	if want := "metrics are served by HTTPS"; !strings.Contains(manifests.Notes, want) {
		t.Errorf("the notes do not say %q:\n%s", want, manifests.Notes)
	}
}

func TestThePodMeetsTheRestrictedPodSecurityStandard(t *testing.T) {
	pod := deployment(t, operator(t, nil)).Spec.Template
	isRestricted(t, pod.ObjectMeta, pod.Spec)
}

// isRestricted checks that a pod meets the restricted Pod security standard, and cannot write its root file system.
func isRestricted(t *testing.T, meta metav1.ObjectMeta, pod corev1.PodSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(restricted, &meta, &pod) {
		if !result.Allowed {
			t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	if readOnly := pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
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

func TestTwoPodsRunByDefaultAndOneWithoutAnElection(t *testing.T) {
	manifests := operator(t, map[string]any{"leaderElection": map[string]any{"leaseDuration": "5s"}})
	found := deployment(t, manifests).Spec
	if strategy := found.Strategy; *found.Replicas != 2 || strategy.Type != appsv1.RollingUpdateDeploymentStrategyType ||
		strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 || strategy.RollingUpdate.MaxSurge.IntValue() != 1 {
		t.Errorf("%d replicas with the strategy %v", *found.Replicas, strategy)
	}
	terms := found.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 2 || !maps.Equal(terms[0].PodAffinityTerm.LabelSelector.MatchLabels, found.Selector.MatchLabels) {
		t.Errorf("the pods avoid %v", terms)
	}
	if !slices.Contains(found.Template.Spec.Containers[0].Args, "--lease-duration=5s") {
		t.Errorf("the arguments are %q", found.Template.Spec.Containers[0].Args)
	}
	budget := typed(t, manifests, "PodDisruptionBudget", &policyv1.PodDisruptionBudget{})
	if !maps.Equal(budget.Spec.Selector.MatchLabels, found.Selector.MatchLabels) || budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("the budget is %v", budget.Spec)
	}
	for _, object := range manifests.Objects {
		if object.GetName() != "bellerophon-replicas" || object.GetKind() != "Role" {
			continue
		}
		role := decoded(t, object, &rbacv1.Role{})
		want := map[string]string{"leases.coordination.k8s.io": "create get list update watch", "events.events.k8s.io": "create patch"}
		if got := granted(role.Rules); !maps.Equal(got, want) || role.Namespace != "home" || !slices.Equal(role.Rules[0].ResourceNames, []string{"bellerophon"}) {
			t.Errorf("granted in %s: %v, for %q", role.Namespace, got, role.Rules[0].ResourceNames)
		}
	}
	alone := map[string]any{"replicas": 1, "leaderElection": map[string]any{"enabled": false}}
	manifests = operator(t, alone)
	for _, name := range names(manifests.Objects) {
		if strings.Contains(name, "replicas") || strings.Contains(name, "Budget") {
			t.Errorf("without an election there is %s", name)
		}
	}
	if found := deployment(t, manifests).Spec; *found.Replicas != 1 || found.Strategy.Type != appsv1.RecreateDeploymentStrategyType || found.Template.Spec.Affinity != nil {
		t.Errorf("without an election there are %d replicas with the strategy %v", *found.Replicas, found.Strategy)
	}
	alone["replicas"] = 2
	if _, err := render.Operator("bellerophon", "home", alone); err == nil || !strings.Contains(err.Error(), "replicas is above 1, but leaderElection.enabled and shards.enabled are false") {
		t.Errorf("two replicas without an election: %v", err)
	}
}

func TestADigestWinsOverTheTag(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	image := map[string]any{"repository": "registry.example/operator", "tag": "v2", "digest": digest}
	manifests := operator(t, map[string]any{"image": image})
	if got, want := container(t, manifests), "registry.example/operator@"+digest+" operator --lease=home/bellerophon --protection=protected"; got != want {
		t.Errorf("image and arguments %q, want %q", got, want)
	}
}

func TestWrongValuesAreRefusedByName(t *testing.T) {
	for name, test := range map[string]struct {
		values map[string]any
		want   []string
	}{
		"unknown": {map[string]any{"pods": 3}, []string{"additional properties 'pods' not allowed"}},
		"metrics": {map[string]any{"metrics": map[string]any{"protected": "no"}}, []string{"at '/metrics/protected'", "got string, want boolean"}},
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
	manifests, err := render.Operator("1", "2", map[string]any{"watchNamespace": "3", "metrics": unprotected})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PodDisruptionBudget 2/1", "ServiceAccount 2/1", "Role 3/1", "Role 2/1-replicas", "RoleBinding 3/1", "RoleBinding 2/1-replicas", "Deployment 2/1",
	}
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
	if got, want := names(rest.Objects), names(all.Objects)[:8]; !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if len(rest.CRDs) != len(all.CRDs) || len(all.Objects) != 9 {
		t.Errorf("%d of %d CRDs and all.Objects of length %d, want them unchanged", len(rest.CRDs), len(all.CRDs), len(all.Objects))
	}
}

// unprotected is the value of metrics without reviews.
var unprotected = map[string]any{"protected": false}

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

// typed decodes the first object of a kind, or of its cluster-wide counterpart.
func typed[T any](t *testing.T, manifests render.Manifests, kind string, into *T) *T {
	t.Helper()
	for _, object := range manifests.Objects {
		if strings.TrimPrefix(object.GetKind(), "Cluster") != kind {
			continue
		}
		return decoded(t, object, into)
	}
	t.Fatalf("the chart has no %s", kind)
	return nil
}

// decoded decodes an object. As in the API server, an unknown field is an error.
func decoded[T any](t *testing.T, object *unstructured.Unstructured, into *T) *T {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		t.Fatal(err)
	}
	return into
}

func TestHeroesAreInstalledOnlyOnRequest(t *testing.T) {
	manifests := operator(t, map[string]any{"heroes": map[string]any{"enabled": true}, "webhooks": map[string]any{"enabled": true}})
	got := names(manifests.Objects)
	for _, want := range []string{
		"CustomResourceDefinition heroes.stable.bellerophon.io", "ClusterRole bellerophon:home:bellerophon:heroes",
		"ClusterRoleBinding bellerophon:home:bellerophon:heroes", "ClusterRole bellerophon:home:bellerophon:conversion",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("objects %q, want %q among them", got, want)
		}
	}
	if got := container(t, manifests); !strings.Contains(got, " --heroes") {
		t.Errorf("image and arguments %q, want --heroes", got)
	}
	for _, object := range manifests.Objects {
		if object.GetKind() == "CustomResourceDefinition" && object.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Error("the definition would be deleted with the release, and all heroes with it")
		}
	}
	shared := operator(t, map[string]any{"heroes": map[string]any{"enabled": true}, "shards": map[string]any{"enabled": true}, "leaderElection": map[string]any{"enabled": false}})
	if got := container(t, shared); !strings.Contains(got, " --heroes") || !strings.Contains(got, " --shards=") {
		t.Errorf("image and arguments %q, want --heroes and --shards", got)
	}
}
