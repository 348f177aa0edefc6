package owned

import (
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Fields says which fields of its children a controller owns: it returns the sum of these fields. A
// function may be nil for a kind that the controller does not own.
type Fields struct {
	App         string // the label [LabelApp] of the controller's children
	ConfigMap   func(*corev1.ConfigMap) Sum
	Service     func(*corev1.Service) Sum
	StatefulSet func(*appsv1.StatefulSet) Sum
	// Whole keeps StatefulSets and pods of the app as a whole, too.
	Whole bool
}

// Kinds holds the kinds of children of all controllers of one manager.
type Kinds struct {
	configMap   func(*corev1.ConfigMap) *ConfigMap
	service     func(*corev1.Service) *Service
	statefulSet func(*appsv1.StatefulSet) *StatefulSet
	pod         func(*corev1.Pod) *Pod
}

// KindsOf returns the kinds of children for controllers with the given fields. The label [LabelApp] of
// a child selects the fields.
func KindsOf(fields ...Fields) *Kinds {
	known := map[string]Fields{}
	for _, of := range fields {
		known[of.App] = of
	}
	return &Kinds{
		configMap: func(whole *corev1.ConfigMap) *ConfigMap {
			return &ConfigMap{childOf(whole, sumOf(whole, known[whole.Labels[LabelApp]].ConfigMap))}
		},
		service: func(whole *corev1.Service) *Service {
			return &Service{childOf(whole, sumOf(whole, known[whole.Labels[LabelApp]].Service))}
		},
		statefulSet: func(whole *appsv1.StatefulSet) *StatefulSet {
			return keepStatefulSet(whole, known[whole.Labels[LabelApp]])
		},
		pod: func(whole *corev1.Pod) *Pod { return keepPod(whole, known[whole.Labels[LabelApp]]) },
	}
}

func sumOf[T metav1.Object](whole T, sum func(T) Sum) Sum {
	if sum == nil {
		return 0
	}
	return sum(whole)
}

// ConfigMaps returns the option of a controller that owns ConfigMaps.
func (k *Kinds) ConfigMaps() controller.Option {
	return controller.Owns(&ConfigMap{}, controller.Project(k.configMap), controller.LabelSelector(Selector))
}

// Services returns the option of a controller that owns Services.
func (k *Kinds) Services() controller.Option {
	return controller.Owns(&Service{}, controller.Project(k.service), controller.LabelSelector(Selector))
}

// StatefulSets returns the option of a controller that owns StatefulSets.
func (k *Kinds) StatefulSets() controller.Option {
	return controller.Owns(&StatefulSet{}, controller.Project(k.statefulSet), controller.LabelSelector(Selector))
}

// StatefulSetOf returns the projection of a StatefulSet that was read from the API server.
func (k *Kinds) StatefulSetOf(whole *appsv1.StatefulSet) *StatefulSet { return k.statefulSet(whole) }

// Pods returns the option of a controller that watches the pods of its StatefulSets on demand. A
// change of a pod's problem makes a request for the owner of the StatefulSet.
func (k *Kinds) Pods(app string) controller.Option {
	return controller.Watches(&Pod{}, func(object streams.Object) []types.NamespacedName { return ownerOfPod(object, app) },
		controller.Project(k.pod), controller.LabelSelector(Selector), controller.When(problemChanges), controller.OnDemand())
}

// WholePods returns the option of a controller that watches the pods of its StatefulSets on demand. It gets a request
// for the owner of the StatefulSet with each change.
func (k *Kinds) WholePods(app string) controller.Option {
	return controller.Watches(&Pod{}, func(object streams.Object) []types.NamespacedName { return ownerOfPod(object, app) },
		controller.Project(k.pod), controller.LabelSelector(Selector), controller.OnDemand())
}

// ownerOfPod returns the name of the object of an app whose server a pod is.
func ownerOfPod(object streams.Object, app string) []types.NamespacedName {
	labels := object.GetLabels()
	name := labels[LabelInstance]
	if name == "" || labels[LabelApp] != app {
		return nil
	}
	return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: name}}
}
