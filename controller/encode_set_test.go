package controller

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

func TestAMergeSendsWhatIsSetAndNothingElse(t *testing.T) {
	named := metav1.ObjectMeta{Name: "x"}
	for name, test := range map[string]struct {
		object streams.Object
		want   string
	}{
		"a list without omitempty that is nil": {
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"app": "red"}}},
			`{"metadata":{"name":"x","labels":{"app":"red"}}}`,
		},
		"a list that is empty": {&rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{}}, `{"metadata":{"name":"x"}}`},
		"a map that is empty":  {&corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{}}, `{"metadata":{"name":"x"}}`},
		"a pointer to zero and to false": {
			&appsv1.StatefulSet{ObjectMeta: named, Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{AutomountServiceAccountToken: new(bool)}},
			}},
			`{"metadata":{"name":"x"},"spec":{"replicas":0,"template":{"spec":{"automountServiceAccountToken":false}}}}`,
		},
		"a pointer to an empty struct": {
			&networkingv1.NetworkPolicy{ObjectMeta: named, Spec: networkingv1.NetworkPolicySpec{
				Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}},
			}},
			`{"metadata":{"name":"x"},"spec":{"ingress":[{"from":[{"podSelector":{}}]}]}}`,
		},
		"items of lists, one of which is empty": {
			&networkingv1.NetworkPolicy{ObjectMeta: named, Spec: networkingv1.NetworkPolicySpec{
				Ingress: []networkingv1.NetworkPolicyIngressRule{{}}, PolicyTypes: []networkingv1.PolicyType{""},
			}},
			`{"metadata":{"name":"x"},"spec":{"ingress":[{}],"policyTypes":[""]}}`,
		},
		"containers, with zero values and types that encode themselves": {
			&appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name:      "server",
					Env:       []corev1.EnvVar{{Name: "EMPTY"}},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: {}}},
					LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
						HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")},
					}},
				}},
				Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			}}}},
			`{"metadata":{"name":"x"},"spec":{"template":{"spec":{` +
				`"volumes":[{"name":"tmp","emptyDir":{}}],` +
				`"containers":[{"name":"server","env":[{"name":"EMPTY"}],"resources":{"limits":{"cpu":"2","memory":"0"}},` +
				`"livenessProbe":{"httpGet":{"path":"/healthz","port":"http"}}}]}}}}`,
		},
		"a number or a name that is not set": {
			&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
			`{"metadata":{"name":"x"},"spec":{"ports":[{"port":80}]}}`,
		},
		"values of maps": {
			&corev1.Secret{ObjectMeta: named, StringData: map[string]string{"a": ""}, Data: map[string][]byte{"b": nil, "c": {}, "d": []byte("d")}},
			`{"metadata":{"name":"x"},"data":{"b":"","c":"","d":"ZA=="},"stringData":{"a":""}}`,
		},
		"times, one of which is null": {
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", DeletionTimestamp: &metav1.Time{}, CreationTimestamp: metav1.Unix(0, 0)}},
			`{"metadata":{"name":"x","creationTimestamp":"1970-01-01T00:00:00Z"}}`,
		},
		"no status": {
			&corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}, ObjectMeta: named, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
			`{"kind":"Pod","metadata":{"name":"x"}}`,
		},
		"an object that encodes itself": {
			&unstructured.Unstructured{Object: map[string]any{"kind": "Pod", "spec": map[string]any{"a": int64(0)}, "status": map[string]any{"b": "c"}}},
			`{"kind":"Pod","spec":{"a":0}}`,
		},
		"odd fields": {
			&odd{ObjectMeta: named, inner: inner{Name: "hidden", Deep: "deep"}, Number: 7, Any: map[string]any{"zero": 0, "nil": nil},
				List: []*int{nil, new(int), nil}, Numbered: map[int]string{1: ""}, Skipped: "x", Tree: map[string][]string{"a": nil, `"`: {"\t"}}},
			`{"metadata":{"name":"x"},"deep":"deep","number":"7","any":{"zero":0},"list":[0],"numbered":{"1":""},"tree":{"\"":["\t"],"a":[]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := encodeSet(test.object)
			if err != nil || string(got) != test.want {
				t.Errorf("the error is %v; it sent\n%s, want\n%s", err, got, test.want)
			}
		})
	}
}

// odd has fields that no type of Kubernetes has, but a user's type may have.
type odd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	inner
	*missing
	Name     string              `json:"name"` // hides inner.Name
	Number   int64               `json:"number,string"`
	Any      any                 `json:"any"`
	List     []*int              `json:"list"`
	Numbered map[int]string      `json:"numbered"`
	Tree     map[string][]string `json:"tree"`
	Skipped  string              `json:"-"`
}

type inner struct {
	Name string `json:"name"`
	Deep string `json:"deep"`
}

type missing struct {
	There string `json:"there"`
}

func (o *odd) DeepCopyObject() runtime.Object { copied := *o; return &copied }

func TestAMergeThatCannotBeEncodedSaysWhy(t *testing.T) {
	_, err := encodeSet(&odd{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Any: func() {}})
	if err == nil || !strings.Contains(err.Error(), "unsupported type: func()") {
		t.Errorf("the error is %v", err)
	}
}

// A merge sends the object without its zero values, so it decodes to the same object.
func TestWhatAMergeSendsIsTheObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) *int64 { return rapid.Ptr(rapid.Int64Range(0, 2), true).Draw(t, name) }
		text := rapid.SampledFrom([]string{"", "a", "<"})
		object := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: rapid.MapOfN(text, text, 1, 3).Draw(t, "labels")},
			Spec: appsv1.StatefulSetSpec{
				ServiceName: text.Draw(t, "service"),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: number("grace"),
					HostNetwork:                   rapid.Bool().Draw(t, "host"),
				}},
			},
		}
		for range rapid.IntRange(0, 3).Draw(t, "containers") {
			object.Spec.Template.Spec.Containers = append(object.Spec.Template.Spec.Containers, corev1.Container{
				Name:            text.Draw(t, "container"),
				SecurityContext: rapid.Ptr(rapid.Just(corev1.SecurityContext{RunAsUser: number("user")}), true).Draw(t, "security"),
				Ports:           rapid.SliceOfN(rapid.Just(corev1.ContainerPort{ContainerPort: rapid.Int32Range(0, 2).Draw(t, "port")}), 1, 2).Draw(t, "ports"),
			})
		}
		sent, err := encodeSet(object)
		if err != nil {
			t.Fatal(err)
		}
		again := &appsv1.StatefulSet{}
		if err := json.Unmarshal(sent, again); err != nil {
			t.Fatalf("%s: %v", sent, err)
		}
		if !reflect.DeepEqual(object, again) || strings.Contains(string(sent), "null") {
			t.Errorf("it sent\n%s, which decodes to\n%+v, want\n%+v", sent, again, object)
		}
	})
}

func BenchmarkAMerge(b *testing.B) {
	object := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"app": "red", "team": "blue"}},
		Spec: appsv1.StatefulSetSpec{Replicas: new(int32), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "server", Image: "example.invalid/server:v1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/server"}, {Name: "tmp", MountPath: "/tmp"}},
			}},
			Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}}},
	}
	for name, encode := range map[string]func() ([]byte, error){
		"what is set": func() ([]byte, error) { return encodeSet(object) },
		"as it is":    func() ([]byte, error) { return json.Marshal(object) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
