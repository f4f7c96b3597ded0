"""Names in other languages than English, put into English before they are looked up. Part of `catalog`.

Only what training logs are made of: losses, steps, epochs, rates, accuracies, splits and times.
"""

from __future__ import annotations

import re
from functools import lru_cache

# English words → what stands for them, longest first where one holds another. Words of spaces are found as wholes.
_WORDS = {
    "learning rate": "lernrate|taux d['’ ]?apprentissage|tasa de aprendizaje|taxa de aprendizado|taxa de aprendizagem"
    "|tasso di apprendimento|скорость обучения|темп обучения",
    "training loss": "trainingsverlust|trainingsfehler",
    "validation loss": "validierungsverlust|validierungsfehler|testverlust",
    "gradient norm": "gradientennorm|norme du gradient|norma del gradiente|norma do gradiente|норма градиента",
    "loss": "verlust|perte|pérdida|perdida|perda|perdita|потери|потеря|лосс",
    "step": "trainingsschritt|schritt|étape|etape|paso|passo|шаг",
    "epoch": "epoche|époque|epoque|época|epoca|эпоха",
    "accuracy": "genauigkeit|trefferquote|exactitude|exactitud|acurácia|acuracia|accuratezza|точность",
    "training": "entraînement|entrainement|entrenamiento|treinamento|treino|addestramento|обучение|обучения",
    "validation": "validierung|validación|validacion|validação|validacao|validazione|валидация|валидации",
    "timestamp": "zeitstempel|horodatage|marca de tiempo|метка времени",
}
_CHARACTERS = {
    "learning rate": "学习率|学習率|학습률",
    "gradient norm": "梯度范数|梯度模长|勾配ノルム|그래디언트 노름",
    "step": "训练步数|训练步|步数|步骤|迭代次数|迭代|ステップ数|ステップ|스텝|단계",
    "epoch": "训练轮次|轮次|轮数|エポック|에폭|에포크",
    "accuracy": "准确率|正确率|精度|正解率|정확도",
    "loss": "损失值|损失|損失|손실",
    "training": "训练集|训练|訓練|学習|훈련|학습",
    "validation": "验证集|验证|検証|검증",
    "test": "测试集|测试|テスト|테스트",
    "timestamp": "时间戳|タイムスタンプ",
}
_PLAIN = {one: name for name, these in _WORDS.items() for one in re.sub(r"\['’ \]\?", "'", these).split("|")}
_ALTERNATIVES = sorted((one for these in _WORDS.values() for one in these.split("|")), key=len, reverse=True)
_LETTERS = re.compile(rf"(?<![^\W_])(?:d['’])?(?:{'|'.join(_ALTERNATIVES)})s?(?![^\W_])", re.I)
_SIGNS = {one: name for name, these in _CHARACTERS.items() for one in these.split("|")}
_SIGN = re.compile("|".join(sorted(_SIGNS, key=len, reverse=True)))
_OF = re.compile(r" (?:de la|de|du|des|di|do|da|del|der) ")
_OWNER = re.compile(r"(?<=[a-z])['’]s\b")  # LightGBM: "valid's l2"


@lru_cache(maxsize=65536)
def english(name: str) -> str:
    """The name with what is known of other languages in English; itself where nothing is."""
    if not name.isascii():
        name = _SIGN.sub(lambda found: f" {_SIGNS[found[0]]} ", name).strip()
    if "'" in name or "’" in name:
        name = _OWNER.sub("", name)
    put = _LETTERS.sub(lambda found: _word(found[0]), name)
    return put if put == name else _OF.sub(" ", put)


def _word(found: str) -> str:
    plain = re.sub(r"^d['’]", "", re.sub(r"d['’ ]?(?=apprent)", "d'", found.lower()))
    return _PLAIN.get(plain) or _PLAIN[plain.removesuffix("s")]
