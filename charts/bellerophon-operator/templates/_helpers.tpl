{{- define "bellerophon-operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "bellerophon-operator.labels" -}}
{{ include "bellerophon-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "bellerophon-operator.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- end }}
